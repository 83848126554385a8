"""The pace: when a commit may be made on the event loop, and when it is left to the writer's thread."""

import pytest

from holdfast.store.sqlite.pace import Pace

QUICK, SLOW, STALLED = 0.000_2, 0.002, 0.05


class Moment:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def moment() -> Moment:
    return Moment()


@pytest.fixture
def pace(moment) -> Pace:
    return Pace(moment)


def waited(pace: Pace, moment: Moment) -> float:
    """The whole seconds until a commit may be made on the loop again."""
    began = moment.now
    while not pace.may_try():
        moment.now += 1
    return moment.now - began


def test_quick_commits_stay_on_the_loop(pace):
    for _ in range(10):
        assert pace.may_try()
        pace.took(QUICK)


def test_a_single_slow_commit_among_quick_ones_changes_nothing(pace):
    for _ in range(20):
        for seconds in (*[QUICK] * 10, SLOW):
            # A commit left to the thread now and then is no pause: time stands still, and the next may be tried.
            assert pace.may_try() or pace.may_try()
            pace.took(seconds)


@pytest.mark.parametrize("found", [[STALLED], [SLOW] * 10])
def test_the_thread_makes_the_commits_for_a_while_after_a_stall_or_several_slow_ones(pace, moment, found):
    for seconds in found:
        pace.took(seconds)
    assert not pace.may_try()
    moment.now += 1.1
    assert pace.may_try()


def test_a_disk_that_stays_slow_is_tried_ever_more_seldom_up_to_once_a_minute(pace, moment):
    pauses = []
    pace.took(STALLED)
    waited(pace, moment)
    for _ in range(9):
        pace.took(SLOW)
        pauses.append(waited(pace, moment))
    assert pauses == sorted(pauses)
    assert pauses[0] == 3
    assert pauses[-1] == pauses[-2] == 61


def test_a_quick_commit_resets_the_count_of_slow_ones(pace, moment):
    for _ in range(5):
        pace.took(STALLED)
        waited(pace, moment)
    pace.took(QUICK)
    pace.took(STALLED)
    assert waited(pace, moment) == 2


def test_a_commit_is_left_to_the_thread_now_and_then_so_that_it_cuts_the_log(pace):
    made = 0
    while pace.may_try():
        pace.took(QUICK)
        made += 1
    assert 16 < made < 100
    assert pace.may_try()


def test_the_next_few_commits_after_a_crowd_are_left_to_the_thread(pace):
    pace.crowded()
    left = 0
    while not pace.may_try():
        left += 1
    assert left == 8
    assert pace.may_try()
