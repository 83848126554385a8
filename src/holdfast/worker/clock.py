"""The worker's clock: its estimate of the database's clock, by which leases, due times and entries go."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable
from typing import Protocol

from holdfast.model import Instant


class Alarm(Protocol):
    """An alarm that was set, and can be cancelled."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """How a worker learns of time. Tests pass their own clock."""

    def now(self) -> Instant:
        """The database's time, as far as it is known. It goes back only if the database's clock was set back."""

    def monotonic(self) -> int:
        """This machine's monotonic clock in microseconds, for leases: no setting of any clock changes it."""

    def observe(self, store_now: Instant, asked_at: int) -> None:
        """The store has answered with its time. It was that time at some moment since `asked_at` (monotonic)."""

    def call_at(self, when: Instant, callback: Callable[[], None]) -> Alarm:
        """Call back on the running loop at that time."""

    def store_time(self) -> Instant | None:
        """The time to pass to the store, or None if the store has a clock of its own."""


SET_BACK = 1_000_000
"""A store's clock that is so far behind was set back, or belongs to another server. If it is less behind, that may be
the time an answer took, and is waited for."""


class SystemClock:
    """The database's clock, advanced by this machine's monotonic clock between two answers of the database."""

    def __init__(self) -> None:
        self._offset = time.time_ns() // 1_000 - self.monotonic()
        self._latest = 0
        # An alarm must not hold on to the context of the step in which it was set.
        self._context = contextvars.Context()

    def now(self) -> Instant:
        # By the method, which a simulated world replaces: this machine's clock must not be seen there.
        found = self.monotonic() + self._offset
        if found < self._latest:
            return self._latest
        self._latest = found
        return found

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1_000

    def observe(self, store_now: Instant, asked_at: int) -> None:
        # The answer may have been on its way for long, so the offset is corrected only as far as the answer rules it
        # out.
        self._offset = min(max(self._offset, store_now - self.monotonic()), store_now - asked_at)
        if self._latest - self._offset - self.monotonic() > SET_BACK:
            # Otherwise time would stand still here for as long as the clock was set back, and nothing new would be due.
            self._latest = 0

    def call_at(self, when: Instant, callback: Callable[[], None]) -> Alarm:
        delay = max(when - self.now(), 0) / 1_000_000
        return asyncio.get_running_loop().call_later(delay, callback, context=self._context)

    def store_time(self) -> Instant | None:
        return None
