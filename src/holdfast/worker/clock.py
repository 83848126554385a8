"""The worker's clock: its estimate of the database's. One clock for leases, due times and entries."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from typing import Protocol

from holdfast.model import Instant


class Alarm(Protocol):
    """Something set that can be called off."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """What a worker needs to know of time. Tests pass their own."""

    def now(self) -> Instant:
        """The database's time, as far as is known. Goes back only if that was set back."""

    def monotonic(self) -> int:
        """Microseconds of this machine's own, unaffected by anybody setting a clock: for leases."""

    def observe(self, store_now: Instant, asked_at: int) -> None:
        """The store has said what time it was, at some moment since `asked_at` (monotonic)."""

    def call_at(self, when: Instant, callback: Callable[[], None]) -> Alarm:
        """Call back on the running loop when it is that time."""

    def store_time(self) -> Instant | None:
        """What to tell the store about now; None: it has a clock of its own."""


SET_BACK = 1_000_000
"""From here on a store's clock that is behind was set back, or is another server's. Below it is a matter of how long an
answer took, and waited for."""


class SystemClock:
    """The database's clock, advanced by this machine's monotonic one between two sightings."""

    def __init__(self) -> None:
        self._offset = time.time_ns() // 1_000 - self.monotonic()
        self._latest = 0
        # An alarm must not hold on to the context of the step in which it was set.
        self._context = contextvars.Context()

    def now(self) -> Instant:
        # By the method: in a simulated world that is another clock, and this machine's must not be heard there.
        found = self.monotonic() + self._offset
        if found < self._latest:
            return self._latest
        self._latest = found
        return found

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1_000

    def observe(self, store_now: Instant, asked_at: int) -> None:
        # The answer may have been long on its way: only what it rules out is corrected.
        self._offset = min(max(self._offset, store_now - self.monotonic()), store_now - asked_at)
        if self._latest - self._offset - self.monotonic() > SET_BACK:
            # Else time would stand still here for as long as it was set back, and nothing that begins now would be due.
            self._latest = 0

    def call_at(self, when: Instant, callback: Callable[[], None]) -> Alarm:
        delay = max(when - self.now(), 0) / 1_000_000
        return asyncio.get_running_loop().call_later(delay, callback, context=self._context)

    def store_time(self) -> Instant | None:
        return None
