"""Floors: a claim begins where the last walk first found something, and now and then at the beginning."""

import pytest

from holdfast.model import SECOND
from holdfast.store.postgres import floors
from holdfast.store.postgres.floors import BOTTOM, SLACK, Floor

NOW = 1_800_000_000 * SECOND
MS = 1_000_000


@pytest.fixture
def clock(monkeypatch):
    """Nanoseconds of this process, moved by hand."""
    times = [10**15]
    monkeypatch.setattr(floors.time, "monotonic_ns", lambda: times[0])

    def move(by):
        times[0] += by

    return move


def test_the_first_walk_begins_at_the_beginning():
    assert Floor().begin() == BOTTOM


def test_the_next_walk_begins_a_little_before_what_the_last_one_found(clock):
    floor = Floor()
    floor.seen(BOTTOM, NOW - 5, NOW, 1 * MS)
    assert floor.begin() == NOW - 5 - SLACK


def test_a_walk_that_found_only_what_is_due_later_lets_the_next_begin_before_now(clock):
    floor = Floor()
    floor.seen(BOTTOM, NOW + 60 * SECOND, NOW, 1 * MS)
    assert floor.begin() == NOW - SLACK


@pytest.mark.parametrize(
    ("took", "pause"),
    [(1 * MS, 100 * MS), (10 * MS, 1000 * MS), (40 * MS, 1000 * MS), (50 * MS, 1000 * MS), (200 * MS, 4000 * MS)],
)
def test_walks_from_the_beginning_are_as_seldom_as_they_are_long(clock, took, pause):
    floor = Floor()
    floor.seen(BOTTOM, None, NOW, took)
    clock(pause - 1)
    assert floor.begin() != BOTTOM
    clock(1)
    assert floor.begin() == BOTTOM


def test_a_walk_from_the_floor_does_not_put_off_the_next_one_from_the_beginning(clock):
    floor = Floor()
    floor.seen(BOTTOM, None, NOW, 1 * MS)
    clock(99 * MS)
    floor.seen(floor.begin(), None, NOW, 1 * MS)
    clock(1 * MS)
    assert floor.begin() == BOTTOM


def test_walks_begin_for_a_second_at_an_older_row_that_has_come(clock):
    floor = Floor()
    floor.seen(BOTTOM, None, NOW, 50 * MS)
    floor.lower(NOW - 60 * SECOND)
    floor.lower(NOW - 30 * SECOND)
    clock(999 * MS)
    assert floor.begin() == NOW - 60 * SECOND
    floor.seen(floor.begin(), None, NOW, 1 * MS)
    assert floor.begin() == NOW - 60 * SECOND


def test_an_older_row_lowers_the_floor_for_no_longer_than_a_second(clock):
    floor = Floor()
    floor.seen(BOTTOM, None, NOW, 200 * MS)
    floor.lower(NOW - 60 * SECOND)
    clock(1000 * MS)
    assert floor.begin() == NOW - SLACK
