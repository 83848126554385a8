"""Children, shields, compensations, patches and continue_as_new in the engine (semantics §5, §7)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import RunCancelled, compensate, continue_as_new, patched, rollback, shield, step, workflow
from holdfast.model import Cancel, ChildEnd
from tests.engine.drive import CODEC, SEED, START, note
from tests.engine.samples import clean_up, double, echo, triple


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


def test_a_child_never_looked_at_is_told_unless_it_is_abandoned(begin):
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


def test_a_cancel_waits_while_any_task_is_shielded(begin):
    @workflow
    async def body() -> None:
        with shield():
            await double(1)
            note("whole")
        await double(2)

    drive = begin(body)
    drive.cancel()
    assert drive.ended is None
    drive.complete("double")
    assert drive.notes == ["whole"]
    assert drive.check().status == "cancelled"


def test_a_cancel_that_a_shield_has_kept_back_is_raised_by_the_next_call_that_blocks(begin):
    @workflow
    def body() -> None:
        with shield():
            triple(1)
        try:
            triple(2)
        except asyncio.CancelledError:
            note("cancelled")
            triple(3)
            raise

    drive = begin(body)
    drive.cancel()
    drive.complete("triple")
    assert (drive.begun, drive.notes) == (["triple:2"], ["cancelled"])
    drive.complete("triple:2")
    assert drive.check().status == "cancelled"


def test_a_cancel_that_a_shield_has_kept_back_interrupts_a_def_step_of_an_async_body(begin):
    @workflow
    async def body() -> None:
        async def careful() -> None:
            with shield():
                await double(1)
            triple(1)

        await asyncio.create_task(careful())

    drive = begin(body)
    drive.cancel()
    drive.complete("double")
    assert drive.begun == []
    assert drive.check().status == "cancelled"


@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_cancel_comes_between_two_shields_and_not_inside_the_second(begin, is_awaited):
    @workflow
    async def body() -> None:
        for n in range(3):
            with shield():
                note(n)
                if is_awaited:
                    await double(n)
                else:
                    triple(n)

    drive = begin(body)
    drive.cancel()
    drive.complete("double" if is_awaited else "triple")
    assert len(drive.asked) == 1
    assert drive.notes == [0]
    assert drive.check().status == "cancelled"


def test_a_task_that_goes_from_shield_to_shield_does_not_keep_a_cancel_from_the_body(begin):
    @workflow
    async def body() -> None:
        async def careful() -> None:
            for n in range(3):
                with shield():
                    await double(n)

        task = asyncio.create_task(careful())
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            note("cancelled")
            await task
            raise

    drive = begin(body)
    drive.cancel()
    drive.complete("double")
    assert drive.notes == ["cancelled"]
    assert drive.finish().check().status == "cancelled"
    assert drive.asked == ["double", "double:1", "double:2"]


def test_a_cancel_that_a_shield_has_kept_back_until_the_end_ends_the_run(begin):
    @workflow
    def body() -> int:
        with shield():
            return triple(1)

    drive = begin(body)
    drive.cancel()
    drive.complete("triple")
    assert drive.check().status == "cancelled"


def test_compensations_run_last_first_after_the_body_failed(begin):
    @workflow
    async def body() -> None:
        compensate(echo, "first")
        compensate(clean_up)
        raise ValueError("broken")

    drive = begin(body)
    assert drive.open == ["clean_up"]
    drive.finish()
    assert drive.asked == ["clean_up", "echo"]
    assert drive.check().status == "failed"
    assert isinstance(drive.error, ValueError)


def test_a_task_that_sleeps_when_the_body_fails_goes_on_with_nothing_beside_the_compensations(begin):
    @workflow
    async def body() -> None:
        async def remind() -> None:
            await holdfast.sleep("5s")
            await echo("still there?")

        reminding = asyncio.create_task(remind())
        compensate(clean_up)
        await double(1)
        await reminding

    drive = begin(body)
    drive.fail("double", ValueError("no"))
    assert (drive.open, drive.execution.next_timer()) == (["clean_up"], None)
    drive.complete("clean_up")
    assert drive.check().status == "failed"


def test_a_step_that_nobody_awaits_when_the_body_fails_is_withdrawn_before_anything_is_undone(begin):
    @workflow
    async def body() -> None:
        compensate(clean_up)
        beside = echo.start("beside")
        await double(1)
        await beside

    drive = begin(body)
    drive.fail("double", ValueError("no"))
    assert (drive.open, drive.withdrawn) == (["clean_up"], ["echo"])
    drive.complete("clean_up")
    assert drive.check().status == "failed"


def test_compensations_run_after_a_cancel_and_its_cleanup(begin):
    @workflow
    async def body() -> None:
        compensate(echo, "undo")
        try:
            await double(1)
        finally:
            await clean_up()

    drive = begin(body)
    drive.cancel()
    drive.finish()
    assert drive.asked == ["double", "clean_up", "echo"]
    assert drive.check().status == "cancelled"


def test_nothing_is_undone_when_the_run_completes(begin):
    @workflow
    async def body() -> int:
        compensate(echo, "undo")
        return await double(1)

    drive = begin(body).finish()
    assert drive.asked == ["double"]
    assert drive.check().result == 2


@step
async def refund(payment: str) -> None: ...


@step(compensate=refund)
async def charge(cents: int) -> str:
    return f"p{cents}"


def test_a_step_with_a_compensation_is_undone_with_its_result(begin):
    @workflow
    async def body() -> None:
        await charge(5)
        raise ValueError("broken")

    drive = begin(body).finish()
    assert drive.asked == ["charge", "refund"]
    assert drive.check().status == "failed"


@step(compensate=double)
async def withdraw(cents: int) -> int:
    return cents


@step(compensate=withdraw)
async def deposit(cents: int) -> int:
    return cents


@pytest.mark.parametrize("by_itself", [True, False])
def test_what_undoes_something_is_not_undone_itself(begin, by_itself):
    @workflow
    async def body() -> None:
        await deposit(5)
        if by_itself:
            await rollback()
        raise ValueError("no")

    drive = begin(body).finish()
    assert drive.asked == ["deposit", "withdraw"]
    assert isinstance(drive.check().error, ValueError)


def test_what_can_not_be_compensated_is_noted_and_the_others_still_run(begin):
    @workflow
    async def body() -> None:
        compensate(echo, "first")
        compensate(refund, "p")
        raise ValueError("broken")

    drive = begin(body)
    drive.fail("refund", RuntimeError("bank closed"))
    drive.finish()
    assert drive.asked == ["refund", "echo"]
    assert any("bank closed" in one for one in drive.check().error.__notes__)


def test_a_cancelled_run_tells_what_could_not_be_compensated(begin):
    @workflow
    async def body() -> None:
        compensate(refund, "p")
        await double(1)

    drive = begin(body)
    drive.cancel()
    drive.fail("refund", RuntimeError("bank closed"))
    assert drive.check().status == "cancelled"
    assert "bank closed" in str(CODEC.decode_exception(drive.ended.error))


def test_rollback_runs_what_is_registered_and_the_body_goes_on(begin):
    @workflow
    async def body() -> str:
        compensate(echo, "a")
        await rollback()
        await double(1)
        return "went on"

    drive = begin(body).finish()
    assert drive.asked == ["echo", "double"]
    assert drive.check().result == "went on"


def test_rollback_runs_all_and_raises_the_first_failure(begin):
    @workflow
    async def body() -> str:
        compensate(echo, "registered first")
        compensate(double, 1)
        try:
            await rollback()
        except ValueError as error:
            return str(error)
        return "undone"

    drive = begin(body)
    drive.fail("double", ValueError("came first"))
    drive.fail("echo", ValueError("came last"))
    assert drive.check().result == "came first"


def test_a_cancel_waits_until_a_rollback_is_done_so_that_nothing_is_undone_twice(begin):
    @workflow
    async def body() -> None:
        compensate(clean_up)
        await rollback()
        await holdfast.sleep("1h")

    drive = begin(body)
    drive.cancel()
    assert drive.open == ["clean_up"]
    drive.complete("clean_up")
    assert (drive.check().status, drive.asked) == ("cancelled", ["clean_up"])


def test_what_a_rollback_was_interrupted_at_is_still_to_be_undone(begin):
    @workflow
    async def body() -> None:
        compensate(clean_up)
        async with asyncio.timeout(5):
            await rollback()

    drive = begin(body)
    drive.fire()
    assert (drive.withdrawn, drive.open) == (["clean_up"], ["clean_up:1"])
    drive.complete("clean_up:1")
    assert drive.check().status == "failed"


def test_a_run_that_is_new_goes_the_new_way(begin):
    @workflow
    async def body() -> bool:
        new = patched("change")
        await double(1)
        return new

    assert begin(body).finish().check().result is True


def test_a_run_past_the_point_goes_the_old_way_and_one_before_it_the_new(begin):
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


def test_a_run_that_goes_on_as_its_deadline_passes_leaves_that_to_the_next(begin):
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


def test_nor_by_one_that_catches_everything_and_returns(begin):
    @workflow
    async def body(n: int) -> str:
        try:
            continue_as_new(n + 1)
        except BaseException:
            return "swallowed"

    drive = begin(body, 1)
    assert drive.check().status == "continued"
    assert drive.out[-1].successor.input == b"[2]"


def test_a_shield_in_a_shield_lets_no_cancel_in_that_the_outer_one_keeps_back(begin):
    @workflow
    async def body() -> None:
        with shield():
            note(await double(1))
            with shield():
                note(await double(2))
            note(await double(3))
        note(await double(4))

    drive = begin(body)
    drive.cancel()
    for key in ("double", "double:1", "double:2"):
        drive.complete(key)
    assert drive.notes == [2, 4, 6]
    assert drive.check().status == "cancelled"


def test_a_cancelled_child_is_a_run_cancelled_also_if_something_of_it_could_not_be_compensated(begin):
    @workflow
    async def child() -> None: ...

    @workflow
    async def body() -> str:
        try:
            await child()
        except RunCancelled as error:
            return error.run_id
        return "no"

    drive = begin(body)
    run_id = drive.execution.life.children["child"].new.id
    undone = CODEC.encode_exception(ValueError("could not be compensated"))
    drive.tell("child", "child", msgspec.msgpack.encode(ChildEnd(run_id, "cancelled", None, undone)))
    assert drive.check().result == run_id


def test_a_cancel_that_a_shield_has_kept_back_comes_before_going_on_anew(begin):
    @workflow
    async def body() -> None:
        with shield():
            await double(1)
            continue_as_new()

    drive = begin(body)
    drive.cancel()
    drive.complete("double")
    assert drive.check().status == "cancelled"


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


def test_a_deadline_compensates_too(begin):
    @workflow
    async def body() -> None:
        compensate(echo, "undo")
        await double(1)

    drive = begin(body)
    drive.take(Cancel(drive.tick(), "deadline", True))
    drive.finish()
    assert drive.asked == ["double", "echo"]
    assert drive.check().status == "failed"


def test_a_deadline_compensates_also_where_the_body_catches_it_and_returns(begin):
    @workflow
    async def body() -> str:
        compensate(clean_up)
        try:
            await double(1)
        except asyncio.CancelledError:
            return "late"
        return "in time"

    drive = begin(body, deadline_at=1_700_000_001_000_000)
    drive.cancel(deadline=True)
    assert drive.open == ["clean_up"]
    drive.complete("clean_up")
    assert isinstance(drive.check().error, holdfast.DeadlineExceeded)


@pytest.mark.parametrize("is_deadline", [True, False])
def test_whatever_comes_while_a_run_is_compensated_changes_neither_that_nor_its_end(begin, is_deadline):
    @workflow
    async def body() -> None:
        compensate(clean_up)
        await double(1)

    drive = begin(body, deadline_at=1_700_000_001_000_000)
    drive.fail("double", ValueError("no"))
    drive.at = 1_700_000_002_000_000
    drive.cancel(deadline=is_deadline)
    assert drive.open == ["clean_up"]
    drive.complete("clean_up")
    assert isinstance(drive.check().error, ValueError)


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
