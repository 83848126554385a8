"""A gate: one at a time passes, whichever loop or thread it comes from.

For what is rare and short: whoever finds it shut looks again a little later.
"""

from __future__ import annotations

import asyncio
import threading

_PAUSE = 0.002


class Gate:
    """`async with gate:`. A lock of asyncio's own belongs to the loop in which it was first waited for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        while not self._lock.acquire(blocking=False):  # noqa: ASYNC110  # an event has one loop, too
            await asyncio.sleep(_PAUSE)

    async def __aexit__(self, *exc_info: object) -> None:
        self._lock.release()
