"""The oracle's one excuse: a step that had looked at its lease when its process was stopped, and began afterwards.

Moments are made up here: nothing is started.
"""

from __future__ import annotations

import random
from typing import Any

from tests.acceptance.effects import Effect
from tests.soak.trouble import MOST_ACROSS, Trouble

WENT_ON = 100.0


def begun(run_id: str, *, looked: float, at: float = WENT_ON + 30, pid: int = 1) -> Effect:
    """A step that began although its result was there."""
    return Effect("begun twice", run_id, "work", 1, pid, at, looked)


def excused(*effects: Effect) -> set[Effect]:
    stage: Any = None
    return Trouble(stage, random.Random(0), went_on=[(1, WENT_ON)])._across_stops(list(effects))


def test_a_step_that_looked_before_the_stop_is_excused_however_slow_the_machine():
    across = begun("a", looked=WENT_ON - 5)
    assert excused(across) == {across}


def test_a_step_that_looked_when_its_process_had_gone_on_is_not():
    assert excused(begun("a", looked=WENT_ON + 0.001)) == set()


def test_a_step_that_began_before_the_stop_is_not():
    assert excused(begun("a", looked=WENT_ON - 5, at=WENT_ON - 4)) == set()


def test_a_step_of_another_process_is_not():
    assert excused(begun("a", looked=WENT_ON - 5, pid=2)) == set()


def test_more_of_them_than_can_be_at_that_point_at_once_are_not():
    assert excused(*(begun(str(number), looked=WENT_ON - 5) for number in range(MOST_ACROSS + 1))) == set()
