"""A clock that stands still until a test moves it. The worker, the store and the steps all use it."""

from __future__ import annotations

import contextvars
import heapq
import time
from collections.abc import Callable
from datetime import datetime

from holdfast.model import Duration, Instant, instant_of, microseconds, moment_of
from holdfast.worker import Alarm


class _Alarm:
    __slots__ = ("callback", "context", "is_cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        # As in an event loop, the callback runs in the context that set it, not in that of the code that moves time.
        self.context = contextvars.copy_context()
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualClock:
    """A `holdfast.worker.Clock` for tests. It begins at `start`, or now, and only moves when a test moves it.

    `advance` rings every alarm on the way, each at its own time. `move_to` only moves the time and `ring` only rings
    what is due, so that a test can do something in between.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._now = time.time_ns() // 1_000 if start is None else instant_of(start, what="start")
        self._alarms: list[tuple[Instant, int, _Alarm]] = []
        self._count = 0

    def now(self) -> Instant:
        """The clock's time, in microseconds since 1970 in UTC."""
        return self._now

    def monotonic(self) -> int:
        """The same as `now`: this clock never goes back."""
        return self._now

    def observe(self, store_now: Instant, asked_at: int) -> None:
        """Do nothing: the store's time is this clock's."""

    def call_at(self, when: Instant, callback: Callable[[], None]) -> Alarm:
        """Set an alarm: `callback` is called when the clock is moved to `when` or beyond."""
        alarm = _Alarm(callback)
        self._count += 1
        heapq.heappush(self._alarms, (when, self._count, alarm))
        return alarm

    def store_time(self) -> Instant | None:
        """The same as `now`: the store uses this clock instead of its own."""
        return self._now

    @property
    def moment(self) -> datetime:
        """The clock's time as a datetime in UTC."""
        return moment_of(self._now)

    def next_alarm(self) -> Instant | None:
        """When the next alarm is due; None if none is set."""
        while self._alarms and self._alarms[0][2].is_cancelled:
            heapq.heappop(self._alarms)
        return self._alarms[0][0] if self._alarms else None

    def move_to(self, when: Instant) -> None:
        """Set the time without ringing alarms. A time in the past changes nothing."""
        self._now = max(self._now, when)

    def ring(self) -> int:
        """Ring the alarms that are due, in order of time, and return how many rang.

        Alarms that are set meanwhile wait for the next call.
        """
        due: list[_Alarm] = []
        while (when := self.next_alarm()) is not None and when <= self._now:
            due.append(heapq.heappop(self._alarms)[2])
        rung = 0
        for alarm in due:
            # An alarm that rang before may have cancelled this one.
            if not alarm.is_cancelled:
                rung += 1
                alarm.context.run(alarm.callback)
        return rung

    def advance(self, duration: Duration) -> None:
        """Move on by `duration`, stopping at every alarm on the way to ring it."""
        end = self._now + microseconds(duration, what="advance")
        while (when := self.next_alarm()) is not None and when <= end:
            self.move_to(when)
            self.ring()
        self.move_to(end)

    def __repr__(self) -> str:
        return f"<ManualClock {self.moment.isoformat(' ')}>"
