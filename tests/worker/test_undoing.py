"""Compensations beside everything else that may come: cancels, deadlines, retries."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast import (
    AlreadyCompensated,
    DeadlineExceeded,
    Retry,
    RunCancelled,
    RunFailed,
    RunStatus,
    Worker,
    step,
    workflow,
)
from holdfast.testing import Environment, takes
from tests.worker.slow import Slow
from tests.worker.stage import LATER, PATIENCE, stage, until

done: list[str] = []


@step
async def undo_one() -> None:
    done.append("one")


@step
async def undo_other() -> None:
    done.append("other")


@step
async def do_again(receipt: str) -> None:
    done.append("again")


@step(compensate=do_again)
async def undo_with_undo() -> str:
    done.append("undone")
    return "receipt"


@step
async def refund(receipt: str) -> None:
    done.append("refund")


@step(compensate=refund)
async def charge() -> str:
    return "receipt"


@step(retry=Retry(attempts=1))
async def breaks() -> None:
    raise ValueError("broken")


@workflow(retry=Retry(attempts=3, initial="1h", jitter=0))
async def fails_after_a_charge() -> None:
    await charge()
    raise ValueError("broken")


@workflow(deadline="1h")
async def fails_in_time() -> None:
    holdfast.compensate(undo_one)
    raise ValueError("broken")


@workflow
async def rolls_back() -> None:
    holdfast.compensate(undo_one)
    holdfast.compensate(undo_other)
    await holdfast.rollback()


@workflow
async def undoes_with_undo() -> None:
    holdfast.compensate(undo_with_undo)
    raise ValueError("broken")


@workflow(retry=Retry(attempts=3, initial="1s"))
async def rolls_back_and_fails() -> None:
    await charge()
    try:
        await breaks()
    except ValueError:
        await holdfast.rollback()
        raise


async def test_a_deadline_that_passes_while_a_failure_is_undone_changes_nothing() -> None:
    async with Environment([fails_in_time], stubs={undo_one: takes("2h", None)}) as env:
        run = await env.client.start(fails_in_time)
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout="10h")
        assert isinstance(failed.value.__cause__, ValueError)


async def test_a_cancel_waits_for_a_rollback() -> None:
    done.clear()
    async with Environment([rolls_back], stubs={undo_other: takes("1h", lambda: done.append("other"))}) as env:
        run = await env.client.start(rolls_back)
        await env.skip("5m")
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(timeout="10h")
        assert done == ["other", "one"]
        assert len(env.calls(undo_other)) == 1


async def test_a_deadline_waits_for_a_rollback() -> None:
    async with Environment([rolls_back], stubs={undo_other: takes("1h", None)}) as env:
        run = await env.client.start(rolls_back, deadline="5m")
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout="10h")
        assert isinstance(failed.value.__cause__, DeadlineExceeded)
        assert len(env.calls(undo_other)) == 1


async def test_a_compensation_that_the_body_interrupts_runs_again() -> None:
    done.clear()

    @workflow
    async def gives_up() -> None:
        async with asyncio.timeout(60):
            await rolls_back.fn()

    async with Environment([gives_up], stubs={undo_other: takes("1h", lambda: done.append("other"))}) as env:
        with pytest.raises(RunFailed):
            await (await env.client.start(gives_up)).result(timeout="10h")
        assert done == ["other", "one"]
        assert len(env.calls(undo_other)) == 2


async def test_a_compensation_is_not_undone_itself() -> None:
    done.clear()
    async with Environment([undoes_with_undo]) as env:
        run = await env.client.start(undoes_with_undo)
        with pytest.raises(RunFailed):
            await run.result()
        assert done == ["undone"]


async def test_a_run_that_rolled_back_is_not_tried_again() -> None:
    done.clear()
    async with Environment([rolls_back_and_fails]) as env:
        run = await env.client.start(rolls_back_and_fails)
        with pytest.raises(RunFailed):
            await run.result(timeout="1h")
        assert (done, len(env.calls(breaks))) == (["refund"], 1)


async def test_a_compensated_run_can_not_be_retried() -> None:
    async with Environment([undoes_with_undo]) as env:
        run = await env.client.start(undoes_with_undo)
        await run.wait()
        with pytest.raises(AlreadyCompensated, match="start a new run"):
            await env.client.retry(run.id)


async def test_a_cancel_by_a_clock_that_was_set_back_does_not_come_before_a_recorded_result(database_url) -> None:
    done.clear()
    async with stage(database_url, fails_after_a_charge) as on:
        run = await on.client.start(fails_after_a_charge)
        await on.until_waiting(run)
        on.clock.skipped -= LATER
        await run.cancel()
        assert await run.wait(PATIENCE) is RunStatus.FAILED
        assert done == ["refund"]


@pytest.mark.parametrize("tries", [1, 2])
async def test_a_result_that_comes_into_one_turn_with_a_failure_beside_it_is_recorded(database_url, tries) -> None:
    """So it is undone, or kept for the next try, wherever it came by a moment later than what ends the body."""
    done.clear()
    charges: list[str] = []
    fail, succeed = asyncio.Event(), asyncio.Event()

    @step
    async def first() -> None: ...

    @step(retry=Retry(attempts=1))
    async def fails() -> None:
        await fail.wait()
        raise ValueError("broken")

    @step(compensate=refund)
    async def pays() -> str:
        await succeed.wait()
        charges.append("receipt")
        return "receipt"

    @workflow(retry=Retry(attempts=tries, initial="1ms", jitter=0))
    async def body() -> None:
        await asyncio.gather(first(), fails(), pays())

    store = Slow(database_url)
    await store.open()
    async with stage(database_url) as on, Worker(store, workflows=[body], lease="1000d") as worker:
        run = await on.client.start(body)
        await until(lambda: store.waiting)
        [held] = worker._session.runs.held.values()
        fail.set()
        await until(lambda: len(held.arrivals) == 1)
        succeed.set()
        await until(lambda: len(held.arrivals) == 2)
        store.turns.set()
        store.rows.set()
        assert await run.wait(PATIENCE) is RunStatus.FAILED
        assert (charges, done) == (["receipt"], ["refund"])
    await store.close()
