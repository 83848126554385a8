"""The time of a map's items in a test: retries and timeouts go by the environment's clock, as for steps."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import CancelledError
from datetime import datetime

from holdfast.define import Pace

from .clock import ManualClock


class ItemPace(Pace):
    """The pace of one chunk. Its thread's waits end with the chunk, since no clock moves for an abandoned thread."""

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
            # The chunk is over and nothing waits for this thread, so the loop may be closed.
            return
        with contextlib.suppress(CancelledError):
            asyncio.run_coroutine_threadsafe(self._take_a_nap(pause), self._loop).result()

    @contextlib.asynccontextmanager
    async def limit(self, timeout: int | None) -> AsyncIterator[asyncio.Timeout]:
        # By real time, too: a step that is not stubbed may really take too long.
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
        """The chunk is over, or its result is no longer wanted: end the thread's wait."""
        self._is_left = True
        if self._nap is not None:
            self._nap.cancel()

    async def _take_a_nap(self, pause: int) -> None:
        # This and `leave` both run on the loop's thread, so neither can interrupt the other.
        if not self._is_left:
            self._nap = asyncio.current_task()
            await self._sleep(pause)
