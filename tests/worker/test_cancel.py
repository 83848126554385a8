"""Cancels with a real worker: every wait is woken, steps in flight are told, cleanup runs once."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast import Retry, RunCancelled, current_step, sleep, step, workflow
from tests.worker.samples import refunding
from tests.worker.stage import PATIENCE, stage, until


async def test_a_cancel_wakes_a_long_sleep_at_once(database_url):
    @workflow
    async def body() -> None:
        await sleep("365d")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"


async def test_a_cancel_wakes_a_parked_run(database_url):
    @workflow
    async def body() -> None:
        await sleep("365d")

    async with stage(database_url, body, keep_parked=0) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"


@pytest.mark.parametrize("keep_parked", [0, 1_000])
async def test_a_cancel_runs_the_steps_in_finally(database_url, keep_parked):
    effects: list[str] = []
    body = refunding(effects)
    async with stage(database_url, body, keep_parked=keep_parked) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"
    assert effects == ["refunded"]


async def test_result_raises_run_cancelled_with_the_reason(database_url):
    @workflow
    async def body() -> None:
        await sleep("365d")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        await run.cancel(reason="the customer changed his mind")
        with pytest.raises(RunCancelled, match="changed his mind"):
            await run.result(PATIENCE)


async def test_a_pending_run_is_cancelled_without_a_worker(database_url):
    @workflow
    async def body() -> None:
        pass

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"


async def test_a_run_cancelled_before_it_began_never_begins(database_url):
    lives: list[int] = []

    @workflow
    async def body() -> None:
        lives.append(1)

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await run.cancel()
        async with on.worker(body):
            await (await on.client.start(body)).result(PATIENCE)
    assert lives == [1]


async def test_a_cancel_reaches_an_async_step_in_flight(database_url):
    seen: list[str] = []

    @step
    async def slow() -> None:
        seen.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("left")

    @workflow
    async def body() -> None:
        await slow()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: seen)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"
        await until(lambda: seen == ["began", "left"])


async def test_a_def_step_in_flight_sees_that_its_run_is_cancelled(database_url):
    began, told = threading.Event(), threading.Event()

    @step
    def slow() -> None:
        me = current_step()
        began.set()
        for _ in range(2_000):
            if me.cancelled:
                told.set()
                return
            threading.Event().wait(0.01)

    @workflow
    async def body() -> None:
        slow()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(began.is_set)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"
        await until(told.is_set)


async def test_a_cancel_ends_a_wait_for_a_retry(database_url):
    attempts: list[int] = []

    @step(retry=Retry(attempts=2, initial="1d"))
    async def flaky() -> None:
        attempts.append(1)
        raise ValueError

    @workflow
    async def body() -> None:
        await flaky()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: attempts)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"
    assert attempts == [1]


async def test_cancelling_twice_runs_the_cleanup_once(database_url):
    effects: list[str] = []
    go_on = asyncio.Event()

    @step
    async def refund() -> None:
        effects.append("refunded")
        await go_on.wait()

    @workflow
    async def body() -> None:
        try:
            await sleep("365d")
        finally:
            await refund()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        await run.cancel()
        await until(lambda: effects)
        await run.cancel()
        go_on.set()
        assert await run.wait(PATIENCE) == "cancelled"
        assert (await on.kinds(run)).count("cancel") == 1
    assert effects == ["refunded"]


async def test_cancelling_an_ended_run_changes_nothing(database_url):
    @workflow
    async def body() -> int:
        return 1

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await run.result(PATIENCE)
        assert not await run.cancel()
        assert await (await on.client.get_run(body, id=run.id)).result(PATIENCE) == 1


async def test_a_forced_cancel_ends_a_run_that_will_not_end(database_url):
    seen: list[int] = []

    @step
    async def slow() -> None:
        seen.append(1)
        await asyncio.Event().wait()

    @workflow
    async def body() -> None:
        while True:
            try:
                await slow()
            except asyncio.CancelledError:
                pass

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: seen)
        await run.cancel(force=True)
        assert await run.wait(PATIENCE) == "cancelled"
