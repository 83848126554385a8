"""Children, patches and continue_as_new in the engine (semantics §5, §7)."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import Retry, RunCancelled, continue_as_new, patched, workflow
from holdfast.engine.life import id_after, is_of
from holdfast.model import ChildEnd, history_of
from tests.engine.drive import SEED, START, note
from tests.engine.samples import Declined, double, echo, refuse


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Without the garbage collector: what it calls would be counted here."""
    gc.disable()
    yield
    gc.enable()


@workflow
async def child(n: int) -> int:
    return n


@workflow
def blocking_child(n: int) -> int:
    return n


def test_a_child_is_asked_for_and_its_result_comes_back_typed(begin):
    @workflow
    async def body() -> int:
        return await child(2) + 1

    drive = begin(body)
    [new] = drive.out[0].children
    assert (new.workflow, new.parent_id, new.parent_key) == ("child", "run-1", "child")
    drive.child_ends("child", 2)
    assert drive.check().result == 3


def test_a_started_child_has_an_id_and_may_be_gathered(begin):
    @workflow
    async def body() -> list[int]:
        runs = [child.start(n) for n in range(3)]
        note([run.id for run in runs])
        return list(await asyncio.gather(*runs))

    drive = begin(body)
    assert len(set(drive.notes[0])) == 3
    for key, value in (("child:2", 2), ("child", 0), ("child:1", 1)):
        drive.child_ends(key, value)
    assert drive.check().result == [0, 1, 2]


def test_a_def_body_calls_children_of_either_colour(begin):
    @workflow
    def body() -> Any:
        return [blocking_child(1), child(2)]

    drive = begin(body)
    drive.child_ends("blocking_child", 1)
    drive.child_ends("child", 2)
    assert drive.check().result == [1, 2]


def test_a_failed_child_raises_its_own_exception_noted_with_its_run(begin):
    @workflow
    async def body() -> list[str]:
        try:
            await child(1)
        except ValueError as error:
            return [str(error), *error.__notes__]
        return []

    drive = begin(body)
    drive.child_ends("child", error=ValueError("no"))
    told = drive.check().result
    assert told[0] == "no"
    assert any("run-1.child" in one for one in told)


def test_a_child_that_nobody_waits_for_any_more_is_cancelled(begin):
    @workflow
    async def body() -> None:
        try:
            async with asyncio.timeout(5):
                await child(1)
        except TimeoutError:
            await double(1)

    drive = begin(body)
    drive.fire()
    [new] = drive.out[0].children
    assert drive.out[-1].cancels == (new.id,)
    drive.complete("double")
    assert drive.check().status == "completed"


def test_a_child_that_nobody_awaits_is_an_error_unless_it_is_abandoned(begin):
    @workflow
    async def forgotten() -> None:
        child.start(1)

    with pytest.raises(holdfast.NeverAwaited):
        begin(forgotten)

    @workflow
    async def abandoned() -> str:
        return child.options(on_parent_end="abandon").start(1).id

    drive = begin(abandoned)
    assert drive.check().result == drive.out[0].children[0].id


def test_other_arguments_for_a_child_are_divergence(begin):
    @workflow
    async def body() -> int:
        return await child(2)

    drive = begin(body)

    @workflow
    async def changed() -> int:
        return await child(3)

    with pytest.raises(holdfast.JournalDiverged, match="child"):
        drive.replay(workflow=changed)


def test_a_new_run_takes_the_new_branch_of_a_change(begin):
    @workflow
    async def body() -> bool:
        new = patched("change")
        await double(1)
        return new

    assert begin(body).finish().check().result is True


def test_a_run_past_a_change_takes_the_old_branch_and_a_run_before_it_the_new_one(begin):
    @workflow(name="body")
    async def old() -> None:
        await double(1)
        await double(2)

    @workflow(name="body")
    async def new() -> None:
        await double(1)
        if patched("change"):
            await echo("x")
        else:
            await double(2)

    passed = begin(old)
    passed.complete("double")
    again = passed.replay(workflow=new)
    assert list(again.commands) == ["double:1"]
    before = begin(old)
    again = before.replay(workflow=new)
    done = again.advance([before.completed("double")])
    assert [command.key for command in done.begin] == ["echo"]


def test_a_change_that_the_code_no_longer_asks_about_is_passed_over(begin):
    @workflow(name="body")
    async def asking() -> None:
        if patched("change"):
            await double(1)

    @workflow(name="body")
    async def settled() -> None:
        await double(1)

    drive = begin(asking)
    assert list(drive.replay(workflow=settled).commands) == ["double"]


def test_continue_as_new_ends_the_run_and_names_the_next(begin):
    @workflow
    async def body(n: int) -> int:
        await double(n)
        continue_as_new(n + 1)

    drive = begin(body, 1).finish()
    assert drive.check().status == "continued"
    new = drive.out[-1].successor
    assert new is not None
    assert (new.workflow, new.chain_id, new.input) == ("body", "run-1", b"[2]")
    assert new.origin_id == new.id


def test_the_next_run_has_the_deadline_of_its_chain_a_seed_of_its_own_and_what_its_workflow_declares(begin):
    @workflow(queue="slow", retention="1d", version="7")
    async def other() -> None: ...

    @workflow
    async def body() -> None:
        other.continue_as_new()

    deadline = START + 3_600_000_000
    drive = begin(body, deadline_at=deadline)
    new = drive.out[-1].successor
    assert (new.workflow, new.version, new.queue, new.retention) == ("other", "7", "slow", 86_400_000_000)
    assert new.deadline_at == deadline
    assert new.seed not in (SEED, SEED[:16])


def test_a_run_that_continues_as_new_when_its_deadline_passes_leaves_the_deadline_to_the_next(begin):
    @workflow
    async def body() -> None:
        await double(1)
        continue_as_new()

    assert begin(body, deadline_at=START + 1).finish().check().status == "continued"


def test_continue_as_new_can_not_be_swallowed(begin):
    @workflow
    async def body() -> None:
        try:
            continue_as_new()
        except Exception:
            note("swallowed")

    drive = begin(body)
    assert drive.check().status == "continued"
    assert drive.notes == []


def test_continue_as_new_ends_a_body_that_catches_everything_and_returns(begin):
    @workflow
    async def body(n: int) -> str:
        try:
            continue_as_new(n + 1)
        except BaseException:
            return "swallowed"

    drive = begin(body, 1)
    assert drive.check().status == "continued"
    assert drive.out[-1].successor.input == b"[2]"


@pytest.mark.parametrize("length", [20, 483, 484, 499, 500])
def test_a_run_that_continues_as_new_is_known_by_the_id_of_the_first(length):
    first, other = "a" * length, "a" * (length - 1)
    after = id_after(first, bytes(8))
    assert len(after) == min(length + 17, 500)
    assert is_of(first, first)
    assert is_of(after, first)
    assert is_of(f"{first}+{bytes(8).hex()}", first)
    assert not is_of(after, other)
    assert not is_of(after, f"{first}~2")


def test_only_the_body_itself_may_continue_as_new(begin):
    @workflow
    async def body() -> str:
        async def inner() -> None:
            continue_as_new()

        try:
            await asyncio.create_task(inner())
        except holdfast.MisplacedCall:
            return "refused"
        return "no"

    assert begin(body).check().result == "refused"


def test_a_cancelled_child_raises_run_cancelled(begin):
    @workflow
    async def body() -> str:
        try:
            await child(1)
        except RunCancelled as error:
            return error.run_id
        return "no"

    drive = begin(body)
    drive.tell("child", "child", msgspec.msgpack.encode(ChildEnd("run-1.child", "cancelled")))
    assert drive.check().result == "run-1.child"


def test_rebuilding_a_child_of_a_retried_run_costs_the_same_however_many_children_there_are(begin, no_collector):
    @workflow(retry=Retry(attempts=2, initial="1s", jitter=0))
    async def body(count: int) -> None:
        children = [child.start(n) for n in range(count)]
        await refuse("visa")
        await asyncio.gather(*children)

    def calls(count: int) -> int:
        drive = begin(body, count)
        drive.fail("refuse", Declined("visa", cents=1))
        drive.run_again().complete("refuse", "at last")
        for key in list(drive.execution.life.children):
            drive.child_ends(key, 1)
        history = history_of(drive.entries[:-1])
        again, made = drive.live(), []
        sys.setprofile(lambda *_: made.append(1))
        try:
            again.replay(history.entries[:-1], history.lives)
        finally:
            sys.setprofile(None)
        return len(made)

    assert calls(900) < 4 * calls(300)


def test_rebuilding_a_try_costs_the_same_however_many_tries_follow_it(begin, no_collector):
    @workflow(retry=Retry(attempts=None, initial=0, jitter=0))
    async def body() -> None:
        await refuse("visa")

    def lines(count: int) -> int:
        drive = begin(body)
        for _ in range(count):
            drive.fail("refuse", Declined("visa", cents=1))
            drive.run_again()
        history = history_of(drive.entries)
        again, passed = drive.live(), []

        def trace(frame: Any, event: str, arg: object) -> Any:
            passed.append(1)
            return trace

        kept = sys.gettrace()
        sys.settrace(trace)
        try:
            again.replay(history.entries, history.lives)
        finally:
            sys.settrace(kept)
        assert again.run.attempt == count + 1
        return len(passed)

    assert lines(200) < 5 * lines(50)
