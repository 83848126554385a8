"""Messages and timers that came while no worker had the run are taken in by the time they were sent or due."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AsyncRun, sleep, wait_for_event, wait_for_signal, workflow
from holdfast.define import Workflow
from tests.worker.samples import nothing
from tests.worker.stage import PATIENCE, Stage, stage


@workflow
async def told_at_first() -> str:
    return str(await wait_for_signal("go", timeout="9s", default="late"))


@workflow
async def told_later() -> str:
    await nothing()
    return str(await wait_for_signal("go", timeout="9s", default="late"))


@workflow
async def paid() -> str:
    await nothing()
    return str(await wait_for_event("paid", timeout="9s", default="late"))


async def signal(on: Stage, run: AsyncRun[str]) -> None:
    await run.signal("go", "in time")


async def publish(on: Stage, run: AsyncRun[str]) -> None:
    await on.client.publish("paid", "in time")


async def result_of(url: str, body: Workflow[[], str], send, *, is_in_time: bool) -> str:
    """What a run makes of what is sent while nobody has it, before its wait is over or after that."""
    async with stage(url) as on:
        run = await on.client.start(body)
        async with on.worker(body):
            await on.until_waiting(run)
        if is_in_time:
            await send(on, run)
        on.skip("10s")
        if not is_in_time:
            await send(on, run)
        async with on.worker(body):
            return await run.result(PATIENCE)


@pytest.mark.parametrize("is_written", [True, False])
async def test_a_run_whose_last_timer_is_due_before_its_deadline_completes_however_late_the_wake(
    database_url, is_written
):
    @workflow
    async def body() -> str:
        if is_written:
            await nothing()
        await sleep("1h")
        return "in time"

    async with stage(database_url) as on:
        async with on.worker(body):
            run = await on.client.start(body, deadline="90m")
            await on.until_waiting(run)
        on.skip("100m")
        async with on.worker(body):
            assert await run.result(PATIENCE) == "in time"


async def test_a_cancel_sent_after_a_timer_was_due_comes_after_it_however_late_the_wake(database_url):
    @workflow
    async def body() -> str:
        try:
            await sleep("1h")
        except asyncio.CancelledError:
            return "in the first hour"
        try:
            await sleep("1h")
        except asyncio.CancelledError:
            return "in the second hour"
        return "too late"

    async with stage(database_url) as on:
        async with on.worker(body):
            run = await on.client.start(body)
            await on.until_waiting(run)
        on.skip("90m")
        await run.cancel()
        on.skip("10m")
        async with on.worker(body):
            assert await run.result(PATIENCE) == "in the second hour"


async def test_a_signal_sent_after_the_timeout_of_a_run_that_had_only_begun_is_late(database_url):
    assert await result_of(database_url, told_at_first, signal, is_in_time=False) == "late"


async def test_a_signal_sent_before_the_timeout_is_in_time_however_late_the_worker_comes(database_url):
    assert await result_of(database_url, told_at_first, signal, is_in_time=True) == "in time"


async def test_a_signal_sent_after_the_timeout_of_a_later_wait_is_late(database_url):
    assert await result_of(database_url, told_later, signal, is_in_time=False) == "late"


async def test_an_event_published_before_the_timeout_is_in_time_though_nobody_was_there_to_match_it(database_url):
    assert await result_of(database_url, paid, publish, is_in_time=True) == "in time"
