"""A lock that belongs to no event loop."""

from __future__ import annotations

import asyncio


class LoopLock:
    """Lets one in at a time, in whichever event loop runs.

    An asyncio.Lock belongs to the first event loop that waits for it, but an application may be called in one loop
    after another, as test clients do.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    def here(self) -> asyncio.Lock:
        """The lock for the running loop."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._lock = loop, asyncio.Lock()
        return self._lock
