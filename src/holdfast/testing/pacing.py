"""How time passes for the items of a map in a test: by the environment's clock, as it does for steps."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import CancelledError
from datetime import datetime

from holdfast.define import Pace

from .clock import ManualClock


class ItemPace(Pace):
    """Of one chunk. What its thread waits for ends with the chunk: no clock moves for a thread that was left."""

    def __init__(self, clock: ManualClock, sleep: Callable[[int], Awaitable[None]]) -> None:
        self._clock = clock
        self._sleep = sleep
        self._loop = asyncio.get_running_loop()
        self._is_left = False
        self._nap: asyncio.Task[None] | None = None

    def now(self) -> datetime:
        return self._clock.moment

    def monotonic(self) -> int:
        return self._clock.monotonic()

    async def sleep(self, pause: int) -> None:
        await self._sleep(pause)

    def block(self, pause: int) -> None:
        if self._is_left:
            # Nobody waits for this thread, so the loop may be gone.
            return
        with contextlib.suppress(CancelledError):
            asyncio.run_coroutine_threadsafe(self._take_a_nap(pause), self._loop).result()

    @contextlib.asynccontextmanager
    async def limit(self, timeout: int | None) -> AsyncIterator[asyncio.Timeout]:
        # Also by the real time: what is not stubbed may really take too long.
        async with super().limit(timeout) as limit:
            if timeout is None:
                yield limit
                return
            ends = self._clock.now() + timeout
            alarm = self._clock.call_at(ends, lambda: limit.reschedule(self._loop.time()))
            try:
                yield limit
            finally:
                alarm.cancel()

    def leave(self) -> None:
        """The chunk is over, or nobody wants what comes of it any more."""
        self._is_left = True
        if self._nap is not None:
            self._nap.cancel()

    async def _take_a_nap(self, pause: int) -> None:
        # On the loop, where `leave` is called, too: neither comes between the other's lines.
        if not self._is_left:
            self._nap = asyncio.current_task()
            await self._sleep(pause)
