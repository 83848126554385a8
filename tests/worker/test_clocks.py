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


def test_a_clock_that_is_ahead_of_the_stores_is_set_right_by_its_answer():
    clock = StandingClock()
    clock.observe(5_000, asked_at=0)
    assert clock.now() == 5_000


def test_an_answer_that_was_long_on_its_way_does_not_turn_time_back():
    clock = StandingClock()
    clock.observe(5_000, asked_at=0)
    assert clock.now() == 5_000
    clock.observe(4_900, asked_at=0)
    assert clock.now() == 5_000
