"""A clock that moves when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.errors import BadDuration
from holdfast.testing import ManualClock

START = datetime(2030, 1, 1, tzinfo=UTC)
SECOND = 1_000_000


def test_the_clock_stands_still_until_it_is_moved():
    clock = ManualClock(START)
    assert clock.now() == clock.now() == clock.monotonic() == clock.store_time()
    assert clock.moment == START


def test_the_clock_refuses_a_start_without_a_time_zone():
    with pytest.raises(BadDuration):
        ManualClock(datetime(2030, 1, 1))


def test_alarms_ring_in_order_each_at_its_own_time():
    clock = ManualClock(START)
    rung = []
    for seconds in (3, 1, 2):
        clock.call_at(clock.now() + seconds * SECOND, lambda n=seconds: rung.append((n, clock.moment.second)))
    clock.advance("2s")
    assert rung == [(1, 1), (2, 2)]
    clock.advance("10s")
    assert rung == [(1, 1), (2, 2), (3, 3)]
    assert clock.moment.second == 12


def test_an_alarm_called_off_does_not_ring():
    clock = ManualClock(START)
    rung = []
    clock.call_at(clock.now() + SECOND, lambda: rung.append(1)).cancel()
    assert clock.next_alarm() is None
    clock.advance("1h")
    assert rung == []


def test_an_alarm_may_call_off_another_that_is_due_with_it():
    clock = ManualClock(START)
    rung = []
    clock.call_at(clock.now() + SECOND, lambda: other.cancel())
    other = clock.call_at(clock.now() + SECOND, lambda: rung.append(1))
    clock.advance("1s")
    assert rung == []


def test_an_alarm_set_by_an_alarm_rings_on_the_way():
    clock = ManualClock(START)
    rung = []
    clock.call_at(clock.now() + SECOND, lambda: clock.call_at(clock.now() + SECOND, lambda: rung.append(clock.moment)))
    clock.advance("1m")
    assert [moment.second for moment in rung] == [2]


def test_the_clock_never_goes_back():
    clock = ManualClock(START)
    before = clock.now()
    clock.move_to(before - 1)
    assert clock.now() == before
