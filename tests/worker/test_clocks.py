"""The worker's clock goes by one monotonic clock, whichever that is."""

from __future__ import annotations

from holdfast.worker import SystemClock


class StandingClock(SystemClock):
    def __init__(self) -> None:
        self.standing_at = 0
        super().__init__()

    def monotonic(self) -> int:
        return self.standing_at


def test_time_goes_on_with_the_monotonic_clock_and_by_no_other():
    clock = StandingClock()
    began = clock.now()
    clock.standing_at += 5
    assert clock.now() == began + 5
