"""Machines: states are steps, the context is committed with them, and replay starts at the last checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import DefinitionError, Done, Machine, Next, Retry, step
from holdfast.model import Checkpoint, history_of


def start(ctx: Any) -> Next:
    ctx["seen"] = [ctx.input]
    return Next("second", after="5m")


async def second(ctx: Any) -> Done[Any]:
    ctx["seen"].append("second")
    return Done({"seen": ctx["seen"], "state": ctx.state})


def test_a_machine_goes_from_state_to_state_and_its_context_with_it(begin):
    drive = begin(Machine("m", {"start": start, "second": second}), 7).finish()
    assert drive.asked == ["start", "second"]
    assert drive.check().result == {"seen": [7, "second"], "state": "second"}


def test_the_returned_value_of_a_state_is_compared_by_value():
    assert Next("second", after="5m") == Next("second", after=300) != Next("second")
    assert repr(Next("second", after=300)) == "Next('second', after='5m')"
    assert Done({"seen": [7]}) == Done({"seen": [7]}) != Done()


def test_an_unknown_state_is_an_error_that_names_the_known_ones(begin):
    def wrong(ctx: Any) -> Next:
        return Next("secnd")

    drive = begin(Machine("m", {"start": wrong, "second": second})).finish()
    assert "has no state 'secnd'; it has: start, second" in str(drive.check().error)


def test_a_state_that_returns_something_else_fails_with_advice(begin):
    drive = begin(Machine("m", {"start": lambda ctx: 5}, retry=Retry(attempts=1))).finish()
    assert "expected Next('state') or Done(result)" in str(drive.check().error)


def test_a_next_state_that_is_no_name_is_refused_where_it_is_made():
    with pytest.raises(DefinitionError, match=r"Next\(5\): expected the name of a state"):
        Next(5)


@pytest.mark.parametrize("states", [{}, {"begin": start}, {"start": 5}, {"start": lambda: None}])
def test_a_machine_without_usable_states_is_refused_where_it_is_made(states):
    with pytest.raises(DefinitionError, match="machine 'm'"):
        Machine("m", states)


def test_retries_and_timeouts_hold_for_every_state_and_a_step_brings_its_own():
    machine = Machine(
        "m", {"start": start, "second": step(retry=Retry(attempts=9), timeout="1s")(second)}, retry=Retry(attempts=2)
    )
    assert [machine.states[name].retry.attempts for name in ("start", "second")] == [2, 9]
    assert machine.states["second"].timeout == 1_000_000


def count(ctx: Any) -> Any:
    ctx["n"] = ctx.get("n", 0) + 1
    if ctx["n"] == ctx.input:
        return Done(ctx["n"])
    return Next("start", after="1s" if ctx["n"] % 7 == 0 else None)


def test_a_state_with_a_compensation_is_refused():
    @step(compensate=print)
    def start(ctx: Any) -> Done[None]:
        return Done()

    with pytest.raises(DefinitionError, match="'start' has compensate="):
        Machine("m", {"start": start})


async def generating(ctx: Any) -> Any:
    yield Done()


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ({"start": start, "second": Machine("other", {"start": start})}, "the state 'second' is a workflow"),
        ({"start": generating}, "the state 'start' is a generator"),
        ({1: start}, "no state 'start' to begin with; it has: 1"),
    ],
    ids=["workflow", "generator", "number"],
)
def test_a_value_that_can_not_be_a_state_is_refused_where_the_machine_is_made(states: Any, words: str):
    with pytest.raises(DefinitionError, match=words):
        Machine("m", states)


def test_a_transactional_state_is_refused():
    @step(transaction=True)
    def start(db: Any) -> Done[None]:
        return Done()

    with pytest.raises(DefinitionError, match="'start' is a transactional step"):
        Machine("m", {"start": start})


def test_the_arguments_of_a_state_are_recorded_if_its_step_says_so():
    @step(record_args=True)
    def start(ctx: Any) -> Done[None]:
        return Done()

    assert Machine("m", {"start": start}).states["start"].record_args


def test_a_long_machine_replays_from_its_last_checkpoint(begin):
    drive = begin(Machine("m", {"start": count}), 250)
    for _ in range(230):
        key = next(iter(drive.execution.commands), None)
        drive.complete(key) if key else drive.fire()
    history = history_of(drive.entries)
    assert isinstance(history.entries[1], Checkpoint)
    assert len(history.entries) < 250
    assert any(out.truncate for out in drive.out)
    again = drive.live()
    again.replay(history.entries)
    assert list(again.commands) == list(drive.execution.commands)
    assert again.next_timer() == drive.execution.next_timer()
    drive.execution = again
    assert drive.finish().result == 250


def test_entries_before_a_checkpoint_do_not_count_against_the_journal_limit(begin):
    drive = begin(Machine("counting", {"start": lambda ctx: Next("start")}), None)
    for number in range(250):
        drive.complete("start" if not number else f"start:{number}")
    assert drive.execution.run.journal_length == 50
    again = drive.live()
    again.replay(history_of(drive.entries).entries)
    assert again.run.journal_length == 50
