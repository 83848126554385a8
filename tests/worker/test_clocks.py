"""The worker's clock goes by one monotonic clock, whichever that is."""

from __future__ import annotations

from holdfast.worker import SystemClock


class StandingClock(SystemClock):
    def __init__(self) -> None:
        self.standing_at = 0
        super().__init__()

    def monotonic(self) -> int:
        return self.standing_at


def test_the_time_of_a_worker_follows_the_monotonic_clock_and_no_other():
    clock = StandingClock()
    began = clock.now()
    clock.standing_at += 5
    assert clock.now() == began + 5


def test_a_worker_clock_ahead_of_the_store_is_corrected_by_an_answer_of_the_store():
    clock = StandingClock()
    clock.observe(5_000, asked_at=0)
    assert clock.now() == 5_000


def test_an_answer_that_took_long_does_not_turn_the_clock_back():
    clock = StandingClock()
    clock.observe(5_000, asked_at=0)
    assert clock.now() == 5_000
    clock.observe(4_900, asked_at=0)
    assert clock.now() == 5_000
