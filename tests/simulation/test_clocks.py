"""A clock of a world remembers what it has shown: the laws excuse what was due by it before it was set back."""

import contextvars

from holdfast.testing.simulation.clocks import SimClock
from holdfast.testing.simulation.loop import VirtualLoop

SECOND = 1_000_000


def set_back_after_ten_seconds() -> SimClock:
    """A clock that showed 10 s, was set back to 4 s, and shows 6 s two seconds later."""
    loop = VirtualLoop()
    clock = SimClock(loop, 0, contextvars.copy_context())
    loop.microseconds = 10 * SECOND
    assert clock.now() == 10 * SECOND
    clock.observe(4 * SECOND, clock.monotonic())
    loop.microseconds = 12 * SECOND
    return clock


def test_a_clock_that_was_set_back_knows_what_it_has_shown_since_a_moment_before():
    clock = set_back_after_ten_seconds()
    assert clock.latest_since(9 * SECOND) == 10 * SECOND


def test_a_clock_that_was_set_back_does_not_count_times_shown_before_a_later_moment():
    clock = set_back_after_ten_seconds()
    assert clock.latest_since(11 * SECOND) == 6 * SECOND
