"""A process's clock: its estimate of the store's, on virtual time. It remembers what it has shown, for the laws."""

from __future__ import annotations

import contextvars
from collections.abc import Callable

from holdfast.model import Instant
from holdfast.worker import Alarm, SystemClock

from .loop import VirtualLoop


class SimClock(SystemClock):
    """The real clock's rules on virtual time. Its estimate of the store's time can be falsified until it is
    corrected."""

    def __init__(self, loop: VirtualLoop, booted: int, context: contextvars.Context) -> None:
        self._virtual = loop
        self._booted = booted
        super().__init__()
        # The host's own clock may show anything: only the store's answers count.
        self._offset = -booted
        self._context = context
        self._set_back: list[tuple[int, Instant]] = []
        """When the clock was set back, in the world's own time, and the latest that it had shown by then."""

    def monotonic(self) -> int:
        return self._virtual.microseconds + self._booted

    def call_at(self, when: Instant, callback: Callable[[], None]) -> Alarm:
        # As the real clock does it, but in a context that dies with the process.
        return self._virtual.call_later(max(when - self.now(), 0) / 1_000_000, callback, context=self._context.copy())

    def observe(self, store_now: Instant, asked_at: int) -> None:
        shown = self._latest
        super().observe(store_now, asked_at)
        if self._latest < shown:
            self._set_back.append((self._virtual.microseconds, shown))

    def latest_since(self, moment: int) -> Instant:
        """The latest time that it has shown since a moment in the world's own time."""
        return max((self.now(), *(shown for at, shown in self._set_back if at >= moment)))

    def jump(self, by: int) -> None:
        self._offset += by
