"""Random programs of gathers, races, timeouts and sleeps: however their inputs come and are grouped, replay agrees."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import blocking, now, rng, sleep, workflow
from holdfast.model import Cancel
from tests.engine.drive import Drive, note
from tests.engine.samples import Declined, double, echo, refuse, triple

leaves = st.one_of(
    st.tuples(st.just("double"), st.integers(0, 5)),
    st.tuples(st.just("triple"), st.integers(0, 5)),
    st.tuples(st.just("echo"), st.integers(0, 5)),
    st.tuples(st.just("refuse"), st.integers(0, 5)),
    st.tuples(st.just("sleep"), st.integers(0, 5)),
    st.tuples(st.just("block"), st.integers(0, 5)),
    st.tuples(st.just("pending"), st.integers(0, 5)),
    st.tuples(st.just("dice"), st.integers(0, 5)),
)
programs = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(
            st.sampled_from(["all", "first", "group", "some", "sequence", "completed"]),
            st.lists(inner, min_size=1, max_size=4),
        ),
        st.tuples(st.sampled_from(["timeout", "wait_for", "shield", "finally"]), inner),
    ),
    max_leaves=12,
)


async def perform(program: Any) -> Any:
    """One program, noting what it sees."""
    kind, given_ = program
    seen: Any
    try:
        seen = await _perform(kind, given_)
    except Declined as error:
        seen = f"declined {error.card}"
        note(kind, seen)
        if kind == "refuse":
            raise
    except BaseExceptionGroup as group:
        seen = sorted(type(error).__name__ for error in group.exceptions)
    except TimeoutError:
        seen = "late"
    note(kind, seen, now())
    return seen


async def _perform(kind: str, given_: Any) -> Any:
    match kind:
        case "double":
            return await double(given_)
        case "triple":
            return triple(given_)
        case "echo":
            return await echo(given_)
        case "refuse":
            return await refuse(str(given_))
        case "sleep":
            return await sleep(given_)
        case "block":
            return blocking.sleep(given_)
        case "pending":
            pending = double.start(given_)
            await asyncio.sleep(0)
            return await pending
        case "dice":
            return rng().randrange(1000)
        case "all":
            return await asyncio.gather(*(perform(one) for one in given_), return_exceptions=False)
        case "some":
            found = await asyncio.gather(*(perform(one) for one in given_), return_exceptions=True)
            return [type(one).__name__ for one in found]
        case "sequence":
            return [await perform(one) for one in given_]
        case "group":
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(perform(one)) for one in given_]
            return [task.result() for task in tasks]
        case "first":
            tasks_ = {asyncio.create_task(perform(one)) for one in given_}
            done, rest = await asyncio.wait(tasks_, return_when=asyncio.FIRST_COMPLETED)
            for one in rest:
                one.cancel()
            return [type(one.exception()).__name__ for one in done]
        case "completed":
            pending_ = [asyncio.create_task(perform(one)) for one in given_]
            return [await one for one in asyncio.as_completed(pending_)]
        case "timeout":
            async with asyncio.timeout(3):
                return await perform(given_)
        case "wait_for":
            return await asyncio.wait_for(perform(given_), 2)
        case "shield":
            return await asyncio.shield(asyncio.ensure_future(perform(given_)))
        case "finally":
            try:
                return await perform(given_)
            finally:
                await echo("cleaned")
        case _:
            raise AssertionError(kind)


@workflow
async def body(program: Any) -> None:
    await perform(program)


class Player:
    """Feeds a run as chance has it: results, failures and timers in any order, in turns of any size."""

    def __init__(self, drive: Drive, data: st.DataObject) -> None:
        self.drive = drive
        self.data = data

    def play(self, *, cancels: bool = False) -> None:
        for _ in range(200):
            if self.drive.ended:
                return
            self.turn(cancels)
        raise AssertionError("the program did not end")

    def turn(self, cancels: bool) -> None:
        drive = self.drive
        keys = list(drive.execution.commands)
        inputs = []
        # Something has to move: a result, or else a timer.
        least = 0 if drive.execution.next_timer() is not None else 1
        choice = st.lists(st.sampled_from(keys or [""]), unique=True, min_size=least, max_size=4)
        chosen = self.data.draw(choice) if keys else []
        for key in chosen:
            command = drive.execution.commands[key]
            if command.step.name == "refuse":
                inputs.append(drive.failed(key, Declined("visa", cents=1)))
            else:
                inputs.append(drive.completed(key))
        if drive.execution.next_timer() is not None and (not chosen or self.data.draw(st.booleans())):
            inputs.append(drive.fired())
        if cancels and self.data.draw(st.integers(0, 5)) == 0:
            inputs.append(Cancel(drive.tick(), None))
        if inputs:
            drive.take(*inputs)


@settings(max_examples=150)
@given(programs, st.data())
def test_a_random_program_replays_from_every_point(program, data):
    with closing(Drive(body, program)) as drive:
        Player(drive, data).play()
        drive.check()


@settings(max_examples=100)
@given(programs, st.data())
def test_a_random_program_that_is_cancelled_replays_from_every_point(program, data):
    with closing(Drive(body, program)) as drive:
        Player(drive, data).play(cancels=True)
        drive.check()


@settings(max_examples=100)
@given(programs, st.data())
def test_the_same_inputs_in_other_turns_make_the_same_journal(program, data):
    """One life is fed as chance has it, the other one input at a time, and put away in between at random."""
    with closing(Drive(body, program)) as drive, closing(Drive(body, program)) as other:
        Player(drive, data).play()
        inputs = [entry for entry in drive.entries if entry.kind not in ("step_asked", "ended")]
        for entry in inputs[1:]:
            if data.draw(st.booleans()):
                other.execution.put_away()
                other.execution = other.replay()
            other.take(entry)
        assert other.entries == drive.entries
        assert other.notes == drive.notes
