"""Compensation: what was done is undone as steps, last first, when a run fails, is cancelled, or says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import (
    AlreadyCompensated,
    AsyncClient,
    Retry,
    RunFailed,
    RunStatus,
    Worker,
    blocking,
    compensate,
    step,
    workflow,
)
from holdfast.testing import Environment, assert_durable
from tests.life.trips import book_room, cancel_flight, cancel_room, fail, undone
from tests.life.waiting import until_waiting


@workflow
async def trip() -> None:
    await book_room("Ada")
    compensate(cancel_flight, "HF1", fee=5)
    await fail()


@workflow
def trip_in_a_plain_body() -> None:
    book_room("Ada")
    compensate(cancel_flight, "HF1")
    fail()


@workflow
async def long_trip() -> None:
    await book_room("Ada")
    compensate(cancel_flight, "HF1")
    await holdfast.wait_for_signal("never")


@workflow
async def good_trip() -> str:
    compensate(cancel_flight, "HF1")
    return await book_room("Ada")


@workflow
async def second_thoughts() -> str:
    await book_room("Ada")
    compensate(cancel_flight, "HF1")
    await holdfast.rollback()
    await holdfast.sleep("1h")
    return "at home"


def names(env: Environment) -> list[str]:
    """What was executed to undo something."""
    return [call.key for call in [*env.calls(cancel_flight), *env.calls(cancel_room)]]


@pytest.mark.parametrize("failing", [trip, trip_in_a_plain_body])
async def test_a_failed_run_is_compensated(failing):
    async with Environment(failing) as env:
        run = await env.client.start(failing)
        assert await run.wait() is RunStatus.FAILED
        assert [call.args for call in env.calls(cancel_room)] == [("room of Ada",)]
        assert len(env.calls(cancel_flight)) == 1


async def test_compensations_run_last_first():
    order: list[str] = []

    @step
    async def undo(what: str) -> None:
        order.append(what)

    @workflow
    async def three() -> None:
        for what in ("first", "second", "third"):
            compensate(undo, what)
        await fail()

    async with Environment(three) as env:
        await (await env.client.start(three)).wait()
        assert order == ["third", "second", "first"]


async def test_a_compensated_run_still_fails_with_the_body_s_own_exception():
    async with Environment(trip) as env:
        with pytest.raises(RunFailed) as failed:
            await (await env.client.start(trip)).result()
        assert isinstance(failed.value.__cause__, ValueError)


async def test_a_completed_run_is_not_compensated():
    async with Environment(good_trip) as env:
        assert await (await env.client.start(good_trip)).result() == "room of Ada"
        assert names(env) == []


async def test_a_cancelled_run_is_compensated():
    async with Environment(long_trip) as env:
        run = await env.client.start(long_trip)
        await env.until_waiting(run)
        await run.cancel()
        assert await run.wait() is RunStatus.CANCELLED
        assert names(env) == ["cancel_flight", "cancel_room"]


async def test_a_run_past_its_deadline_is_compensated():
    async with Environment(long_trip) as env:
        run = await env.client.start(long_trip, deadline="1h")
        assert await run.wait() is RunStatus.FAILED
        assert names(env) == ["cancel_flight", "cancel_room"]


async def test_compensation_comes_after_finally():
    order: list[str] = []

    @step
    async def undo() -> None:
        order.append("undo")

    @step
    async def tidy() -> None:
        order.append("tidy")

    @workflow
    async def both() -> None:
        compensate(undo)
        try:
            await fail()
        finally:
            await tidy()

    async with Environment(both) as env:
        await (await env.client.start(both)).wait()
        assert order == ["tidy", "undo"]


async def test_a_step_that_failed_is_not_compensated():
    @step(compensate=cancel_room, retry=Retry(attempts=1))
    async def no_room() -> str:
        raise ValueError("no room")

    @workflow
    async def unlucky() -> None:
        await no_room()

    async with Environment(unlucky) as env:
        await (await env.client.start(unlucky)).wait()
        assert names(env) == []


async def test_rollback_undoes_what_was_registered_and_the_run_goes_on():
    async with Environment(second_thoughts) as env:
        assert await (await env.client.start(second_thoughts)).result() == "at home"
        assert names(env) == ["cancel_flight", "cancel_room"]


async def test_rollback_blocks_a_plain_body():
    @workflow
    def plain() -> str:
        book_room("Ada")
        blocking.rollback()
        return "at home"

    async with Environment(plain) as env:
        assert await (await env.client.start(plain)).result() == "at home"
        assert names(env) == ["cancel_room"]


async def test_what_was_rolled_back_is_not_undone_again():
    @workflow
    async def fails_later() -> None:
        await book_room("Ada")
        await holdfast.rollback()
        await fail()

    async with Environment(fails_later) as env:
        await (await env.client.start(fails_later)).wait()
        assert names(env) == ["cancel_room"]


async def test_a_compensation_that_fails_does_not_keep_the_others_from_running():
    @step(retry=Retry(attempts=1))
    async def undo_badly() -> None:
        raise KeyError("lost")

    @workflow
    async def clumsy() -> None:
        await book_room("Ada")
        compensate(undo_badly)
        await fail()

    async with Environment(clumsy) as env:
        run = await env.client.start(clumsy)
        assert await run.wait() is RunStatus.FAILED
        assert names(env) == ["cancel_room"]


async def test_a_compensation_is_retried_like_any_step():
    tries: list[int] = []

    @step(retry=Retry(attempts=3, initial="1h", jitter=0))
    async def undo() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError

    @workflow
    async def clumsy() -> None:
        compensate(undo)
        await fail()

    async with Environment(clumsy) as env:
        await (await env.client.start(clumsy)).wait()
        assert len(tries) == 3


async def test_compensation_comes_after_the_last_attempt_of_the_workflow():
    @workflow(retry=Retry(attempts=3, initial="1h", jitter=0))
    async def persistent() -> None:
        await book_room("Ada")
        await fail()

    async with Environment(persistent) as env:
        run = await env.client.start(persistent)
        assert await run.wait() is RunStatus.FAILED
        assert len(env.calls(fail)) == 3
        assert len(env.calls(book_room)) == 1
        assert names(env) == ["cancel_room"]


async def test_a_cancel_that_comes_with_the_failure_leaves_nothing_uncompensated():
    @workflow(retry=Retry(attempts=3, initial="1h", max="1h", jitter=0))
    async def persistent() -> None:
        await book_room("Ada")
        await holdfast.wait_for_signal("go")
        raise ValueError("sold out")

    async with Environment(persistent) as env:
        run = await env.client.start(persistent)
        await env.until_waiting(run)
        await run.signal("go")
        await run.cancel()
        assert await run.wait() is RunStatus.FAILED
        assert names(env) == ["cancel_room"]


async def test_a_cancel_in_the_pause_before_the_next_attempt_leaves_nothing_uncompensated():
    @workflow(retry=Retry(attempts=3, initial="1h", jitter=0))
    async def persistent() -> None:
        await book_room("Ada")
        await book_room("Ben")
        raise ValueError("sold out")

    async with Environment(persistent) as env:
        run = await env.client.start(persistent)
        await env.until_waiting(run)
        await run.cancel()
        assert await run.wait() is RunStatus.FAILED
        assert len(names(env)) == 2


async def test_a_cancel_does_not_interrupt_a_compensation():
    @step(retry=Retry(attempts=2, initial="1h", jitter=0))
    async def undo() -> None:
        if holdfast.current_step().attempt == 1:
            raise ConnectionError

    @workflow
    async def clumsy() -> None:
        compensate(undo)
        await fail()

    async with Environment(clumsy) as env:
        run = await env.client.start(clumsy)
        await env.until_waiting(run)
        await run.cancel()
        assert (await run.wait()).is_final
        assert len(env.calls(undo)) == 2


async def test_a_run_that_was_compensated_cannot_be_retried():
    async with Environment(trip) as env:
        run = await env.client.start(trip)
        await run.wait()
        with pytest.raises(AlreadyCompensated):
            await env.client.retry(run.id)


async def test_a_run_that_had_nothing_to_undo_can_be_retried():
    @workflow
    async def unlucky() -> None:
        await fail()

    async with Environment(unlucky) as env:
        run = await env.client.start(unlucky)
        await run.wait()
        assert (await env.client.retry(run.id)).id != run.id


async def test_a_run_that_was_rolled_back_cannot_be_retried():
    @workflow
    async def fails_later() -> None:
        await book_room("Ada")
        await holdfast.rollback()
        await fail()

    async with Environment(fails_later) as env:
        run = await env.client.start(fails_later)
        await run.wait()
        with pytest.raises(AlreadyCompensated):
            await env.client.retry(run.id)


async def test_steps_side_by_side_are_undone_in_the_reverse_order_of_their_results():
    order: list[str] = []

    @step
    async def undo(what: str) -> None:
        order.append(what)

    @step(compensate=undo)
    async def slow() -> str:
        await second.wait()
        return "slow"

    @step(compensate=undo)
    async def fast() -> str:
        return "fast"

    @workflow
    async def both() -> None:
        async def then() -> None:
            await fast()
            await opening()

        await asyncio.gather(slow(), then())
        await fail()

    @step
    async def opening() -> None:
        second.set()

    second = asyncio.Event()
    async with Environment(both) as env:
        await (await env.client.start(both)).wait()
        assert order == ["slow", "fast"]


@pytest.mark.parametrize("workflow_", [trip, trip_in_a_plain_body, second_thoughts, good_trip])
def test_compensation_survives_a_crash_at_every_commit(workflow_):
    assert_durable(workflow_, effects=undone)


def test_compensation_of_a_cancelled_run_survives_a_crash_at_every_commit():
    async def drive(env: Any, run: Any) -> None:
        await env.until_waiting(run)
        await run.cancel()

    assert_durable(long_trip, drive=drive, effects=undone)


async def test_a_run_cancelled_while_no_worker_lives_is_compensated_by_the_next(url):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[long_trip]):
            run = await client.start(long_trip)
            await until_waiting(run)
        undone.clear()
        await run.cancel()
        async with Worker(client, workflows=[long_trip]):
            assert await run.wait(timeout=30) is RunStatus.CANCELLED
        assert sorted(undone.values()) == ["HF1 0", "room of Ada"]
