"""From where a run goes on that was cancelled by force, and is retried."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import holdfast
from holdfast import AsyncRun, Retry, step, workflow
from tests.worker.stage import PATIENCE, stage, until

done: list[str] = []


@step(retry=Retry(attempts=1))
async def refused() -> None:
    raise ValueError("no")


@step
async def deed(name: str) -> str:
    done.append(name)
    return name


@workflow
async def catches() -> str:
    with contextlib.suppress(ValueError):
        await refused()
    await deed("behind the failure")
    await holdfast.wait_for_signal("go")
    return "over"


@workflow
async def tells() -> str:
    await deed("before")
    holdfast.emit("news", "once")
    await holdfast.wait_for_signal("go")
    return "over"


async def cancelled_and_retried(on: Any, body: Any) -> AsyncRun[str]:
    """A run that was cancelled by force where it waits, in its second life, which goes on from there to its end."""
    run = await on.client.start(body)
    await on.until_waiting(run)
    await run.cancel(force=True)
    again = await on.client.retry(run.id)
    await again.signal("go")
    assert await again.result(PATIENCE) == "over"
    return again


async def test_steps_done_after_a_caught_failure_are_not_executed_again(database_url):
    done.clear()
    async with stage(database_url, catches) as on:
        await cancelled_and_retried(on, catches)
    assert done == ["behind the failure"]


async def test_items_that_a_run_has_emitted_are_not_emitted_again(database_url):
    async with stage(database_url, tells) as on:
        again = await cancelled_and_retried(on, tells)
        assert [item.value async for item in again.stream("news", type=str)] == ["once"]


async def test_a_step_that_was_in_flight_is_executed_again(database_url):
    begun: list[int] = []

    @step
    async def hangs_once() -> int:
        begun.append(1)
        if len(begun) == 1:
            await asyncio.Event().wait()
        return len(begun)

    @workflow
    async def hangs() -> int:
        await deed("before")
        return await hangs_once()

    done.clear()
    async with stage(database_url, hangs) as on:
        run = await on.client.start(hangs)
        await until(lambda: begun)
        await run.cancel(force=True)
        again = await on.client.retry(run.id)
        assert await again.result(PATIENCE) == 2
    assert done == ["before"]


async def test_a_run_that_waited_for_its_next_try_goes_on_from_the_failure_that_ended_the_last_one(database_url):
    begun: list[int] = []

    @step(retry=Retry(attempts=1))
    async def fails_once() -> None:
        begun.append(1)
        if len(begun) == 1:
            raise ValueError("no")

    @workflow(retry=Retry(attempts=2, initial="1h"))
    async def tried() -> str:
        with contextlib.suppress(ValueError):
            await refused()
        await deed("behind the failure")
        await fails_once()
        return "over"

    done.clear()
    async with stage(database_url, tried) as on:
        run = await on.client.start(tried)
        await on.until_waiting(run)
        await run.cancel(force=True)
        again = await on.client.retry(run.id)
        assert await again.result(PATIENCE) == "over"
    assert done == ["behind the failure"]


async def test_a_run_that_was_blocked_may_ask_for_another_step_than_its_last_one(database_url):
    @workflow(name="order")
    async def before() -> str:
        await deed("before")
        await holdfast.sleep("1d")
        return await deed("old")

    @workflow(name="order")
    async def changed() -> str:
        await deed("before")
        return await deed("new")

    async with stage(database_url) as on:
        run = await on.client.start(before)
        async with on.worker(before):
            await on.until_waiting(run)
        on.skip("1d")
        async with on.worker(changed):
            await on.until_blocked(run)
            await run.cancel(force=True)
            again = await on.client.retry(run.id)
            assert await again.result(PATIENCE) == "new"
