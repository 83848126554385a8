"""Compensations and rollbacks in the engine (semantics §7.5)."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

import holdfast
from holdfast import RunCancelled, blocking, compensate, continue_as_new, rollback, step, workflow
from holdfast.model import Cancel, ChildEnd, Inherited, decode_entries
from tests.engine.drive import CODEC
from tests.engine.samples import clean_up, double, echo, refuse


@workflow
async def child(n: int) -> int:
    return n


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


def test_a_compensated_body_that_fails_keeps_its_own_error_despite_a_forgotten_await(begin):
    @workflow
    async def body() -> None:
        async def task() -> None:
            double.start(1)
            await echo("over")

        compensate(clean_up)
        await asyncio.create_task(task())
        raise ValueError("broken")

    drive = begin(body).finish()
    assert drive.check().status == "failed"
    assert isinstance(drive.error, ValueError)


def test_a_task_that_sleeps_when_the_body_fails_does_not_go_on_beside_the_compensations(begin):
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


def test_nothing_is_undone_where_the_body_catches_a_cancel_and_returns(begin):
    @workflow
    async def body() -> str:
        compensate(clean_up)
        try:
            await double(1)
        except asyncio.CancelledError:
            return "all the same"
        return "in time"

    drive = begin(body)
    drive.cancel()
    assert drive.asked == ["double"]
    assert drive.check().result == "all the same"


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
def test_a_compensation_that_has_a_compensation_is_not_undone_itself(begin, by_itself):
    @workflow
    async def body() -> None:
        await deposit(5)
        if by_itself:
            await rollback()
        raise ValueError("no")

    drive = begin(body).finish()
    assert drive.asked == ["deposit", "withdraw"]
    assert isinstance(drive.check().error, ValueError)


def test_a_failed_compensation_is_noted_and_the_others_still_run(begin):
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


def test_a_cancelled_run_names_the_compensations_that_failed(begin):
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


@pytest.mark.parametrize("is_blocking", [False, True])
def test_a_compensation_under_way_in_a_task_when_the_body_fails_is_awaited_and_not_repeated(begin, is_blocking):
    @workflow
    async def body() -> None:
        async def undo() -> None:
            if is_blocking:
                blocking.rollback()
            else:
                await rollback()
            await echo("never")

        compensate(double, 1)
        compensate(clean_up)
        await asyncio.gather(undo(), refuse("visa"))

    drive = begin(body)
    drive.fail("refuse", ValueError("no"))
    assert (drive.open, drive.withdrawn) == (["clean_up"], [])
    drive.finish()
    assert sorted(drive.asked) == ["clean_up", "double", "refuse"]
    assert drive.check().status == "failed"
    assert isinstance(drive.error, ValueError)


def test_the_last_compensation_under_way_in_a_task_when_the_body_fails_is_awaited(begin):
    @workflow
    async def body() -> None:
        compensate(clean_up)
        await asyncio.gather(rollback(), refuse("visa"))

    drive = begin(body)
    drive.fail("refuse", ValueError("no"))
    assert (drive.ended, drive.open) == (None, ["clean_up"])
    drive.fail("clean_up", KeyError("x"))
    assert "clean_up: KeyError: 'x'" in drive.check().error.__notes__[0]


def test_a_compensation_that_fails_in_a_rollback_by_a_cancelled_task_is_noted_once(begin):
    """Two wait for the compensation: the task, and the rollback that follows the body."""

    @workflow
    async def body() -> None:
        async def last() -> None:
            try:
                await holdfast.sleep(60)
            finally:
                await rollback()

        compensate(clean_up)
        await asyncio.gather(last(), refuse("visa"))

    drive = begin(body)
    drive.fail("refuse", ValueError("no"))
    drive.fail("clean_up", KeyError("x"))
    assert drive.check().error.__notes__[0].count("clean_up: KeyError: 'x'") == 1


def test_a_compensation_under_way_when_the_body_continues_as_new_goes_to_the_next_run(begin):
    @workflow
    async def body() -> None:
        compensate(clean_up)
        undoing = asyncio.create_task(rollback())
        await double(1)
        if not undoing.done():
            continue_as_new()

    drive = begin(body)
    drive.complete("double")
    assert drive.withdrawn == ["clean_up"]
    successor = drive.out[-1].successor
    assert successor is not None
    [inherited] = decode_entries(successor.rows[0])
    assert isinstance(inherited, Inherited)
    assert [one.name for one in inherited.undo] == ["clean_up"]


def test_a_compensation_at_which_a_rollback_was_interrupted_is_run_again(begin):
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


def test_a_cancelled_child_raises_run_cancelled_even_if_a_compensation_of_it_failed(begin):
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


def test_compensations_run_after_a_deadline(begin):
    @workflow
    async def body() -> None:
        compensate(echo, "undo")
        await double(1)

    drive = begin(body)
    drive.take(Cancel(drive.tick(), "deadline", True))
    drive.finish()
    assert drive.asked == ["double", "echo"]
    assert drive.check().status == "failed"


def test_compensations_run_after_a_deadline_that_the_body_catches_and_returns_from(begin):
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
def test_a_cancel_or_deadline_during_compensations_changes_neither_them_nor_the_end(begin, is_deadline):
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
