"""Waiting runs: kept in memory while that is cheap, dropped and rebuilt when not, and woken in time."""

from __future__ import annotations

import asyncio

from holdfast import current_run, now, sleep, step, workflow
from tests.worker.samples import nothing, ready
from tests.worker.stage import PATIENCE, stage, until


async def test_a_short_sleep_ends(database_url):
    @workflow
    async def body() -> str:
        await sleep("20ms")
        return "woke"

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result(PATIENCE) == "woke"


async def test_a_run_that_waits_in_memory_resumes_without_replay(database_url):
    lives: list[int] = []

    @workflow
    async def body() -> str:
        lives.append(1)
        await nothing()
        await sleep("30d")
        return "woke"

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        on.skip("31d")
        assert await run.result(PATIENCE) == "woke"
    assert lives == [1]


async def test_a_run_that_was_dropped_is_rebuilt_when_its_time_comes(database_url):
    lives: list[int] = []

    @workflow
    async def body() -> str:
        lives.append(1)
        await nothing()
        await sleep("30d")
        return "woke"

    async with stage(database_url, body, keep_parked=0) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        on.skip("31d")
        assert await run.result(PATIENCE) == "woke"
    assert lives == [1, 1]


async def test_a_sleeping_run_is_woken_by_another_worker(database_url):
    @workflow
    async def body() -> str:
        await sleep("30d")
        return "woke"

    async with stage(database_url) as on:
        run = await on.client.start(body)
        async with on.worker(body):
            await on.until_waiting(run)
        on.skip("31d")
        async with on.worker(body):
            assert await run.result(PATIENCE) == "woke"


async def test_a_restart_does_not_shorten_a_sleep(database_url):
    @workflow
    async def body() -> float:
        began = now()
        await sleep("30d")
        return (now() - began).total_seconds()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        for _ in range(3):
            async with on.worker(body):
                await on.until_waiting(run)
            on.skip("7d")
        async with on.worker(body):
            await on.until_waiting(run)
            on.skip("10d")
            assert await run.result(PATIENCE) >= 30 * 86_400


async def test_a_timeout_in_the_body_ends_a_step_in_flight(database_url):
    seen: list[str] = []

    @step
    async def slow() -> None:
        seen.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("left")

    @workflow
    async def body() -> str:
        try:
            async with asyncio.timeout(3600):
                await slow()
        except TimeoutError:
            return "late"
        return ""

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: seen)
        on.skip("2h")
        assert await run.result(PATIENCE) == "late"
        await until(lambda: seen == ["began", "left"])


async def test_a_timer_fires_while_a_step_is_in_flight(database_url):
    began, go_on, seen = asyncio.Event(), asyncio.Event(), []

    @step
    async def slow() -> None:
        began.set()
        await go_on.wait()
        seen.append("slow has ended")

    @step
    async def tick() -> None:
        seen.append("tick")
        go_on.set()

    @workflow
    async def body() -> None:
        async def beat() -> None:
            await sleep("1h")
            await tick()

        await asyncio.gather(slow(), beat())

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await began.wait()
        on.skip("2h")
        await run.result(PATIENCE)
        assert seen == ["tick", "slow has ended"]


async def test_many_sleeps_end_in_the_order_of_their_times(database_url):
    order: list[int] = []

    @step
    async def mark(n: int) -> None:
        order.append(n)

    @workflow
    async def body(n: int) -> None:
        await sleep(n * 3600)
        await mark(n)

    async with stage(database_url, body) as on:
        runs = [await on.client.start(body, n) for n in (3, 1, 2)]
        for run in runs:
            await on.until_waiting(run)
        for n in range(3):
            on.skip(3601)
            await until(lambda n=n: len(order) == n + 1)
        for run in runs:
            await run.result(PATIENCE)
    assert order == [1, 2, 3]


async def test_a_gather_of_a_sleep_and_a_step_parks_again_after_the_step(database_url):
    """The worker does not spin: the step's end is one turn, and nothing more happens until the timer."""

    @workflow
    async def body() -> int:
        await asyncio.gather(sleep("1h"), nothing())
        return current_run().journal_length

    async with stage(database_url, body, ready) as on:
        run = await on.client.start(body)

        async def is_recorded() -> bool:
            return "step_completed" in await on.kinds(run)

        await until(is_recorded)
        rows = len(await on.store.read_journal(run.id))
        on.skip("30m")
        await (await on.client.start(ready)).result(PATIENCE)
        assert len(await on.store.read_journal(run.id)) == rows
        on.skip("1h")
        assert await run.result(PATIENCE) == 3


async def test_waiting_runs_do_not_take_room(database_url):
    """At concurrency 1 a run that sleeps lets others work."""

    @workflow
    async def sleeper() -> None:
        await sleep("1h")

    @workflow
    async def worker() -> str:
        await nothing()
        return "worked"

    async with stage(database_url, sleeper, worker, concurrency=1) as on:
        sleepers = await on.client.start_many(sleeper, [()] * 20)
        for run in sleepers:
            await on.until_waiting(run)
        assert await (await on.client.start(worker)).result(PATIENCE) == "worked"
