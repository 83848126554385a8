"""A lock for tasks of several event loops and threads.

For what is rare and short: a task that finds the lock taken looks again a little later.
"""

from __future__ import annotations

import asyncio
import threading

_PAUSE = 0.002


class Gate:
    """`async with gate:`. asyncio's own lock can't be used, for it belongs to one loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        while not self._lock.acquire(blocking=False):  # noqa: ASYNC110  # an asyncio.Event has one loop, too
            await asyncio.sleep(_PAUSE)

    async def __aexit__(self, *exc_info: object) -> None:
        self._lock.release()
