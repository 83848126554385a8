"""Concurrency where runs wake from a wait, the order in which they then work, and the warning of a long journal."""

from __future__ import annotations

import asyncio
import logging

import asyncpg

from holdfast import AsyncClient, Worker, current_run, sleep, step, workflow
from tests.worker.samples import add, ready
from tests.worker.stage import PATIENCE, SkippingStore, stage, until


async def test_concurrency_bounds_the_runs_that_wake_from_a_short_sleep(database_url):
    busy, most = 0, 0

    @step
    async def work() -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.005)
        busy -= 1

    @workflow
    async def body() -> None:
        await sleep("20ms")
        for _ in range(3):
            await work()

    async with stage(database_url, body, concurrency=2) as on:
        runs = await on.client.start_many(body, [()] * 20)
        for run in runs:
            await run.result(PATIENCE)
    assert most <= 2


async def test_a_run_that_wakes_while_a_claim_is_under_way_does_not_take_the_place_that_was_kept_for_it(database_url):
    flying: list[str] = []
    crowds: list[list[str]] = []
    claiming, answer, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Slow(SkippingStore):
        async def claim_runs(self, *args, **options):
            claimed = await super().claim_runs(*args, **options)
            if claimed and sleeper.status == "waiting":
                claiming.set()
                await answer.wait()
            return claimed

    @step
    async def work(name: str) -> None:
        flying.append(name)
        crowds.append(list(flying))
        await may_end.wait()
        flying.remove(name)

    @workflow
    async def sleeping() -> None:
        await sleep("5s")
        await work("sleeper")

    @workflow
    async def claimed() -> None:
        await work("claimed")

    async with stage(database_url) as on:
        store = Slow(database_url, on.clock)
        await store.open()
        sleeper = await on.client.start(sleeping)
        worker = Worker(store, workflows=[sleeping, claimed], clock=on.clock, lease="1000d", concurrency=1)
        async with worker:
            await on.until_waiting(sleeper)
            other = await on.client.start(claimed)
            await claiming.wait()
            on.skip("5s")
            await until(lambda: worker._session.runs.line or flying)
            answer.set()
            await until(lambda: flying)
            may_end.set()
            await sleeper.result(PATIENCE)
            await other.result(PATIENCE)
        await store.close()
    assert crowds == [["claimed"], ["sleeper"]]


async def test_a_run_whose_end_is_being_written_takes_none_of_the_concurrency(postgres):
    """Its row is locked by somebody else, so that its end has to wait; at concurrency 1 the next run does not."""
    url = postgres.create_database()
    begun, may_end = asyncio.Event(), asyncio.Event()

    @step
    async def held() -> None:
        begun.set()
        await may_end.wait()

    @workflow
    async def first() -> None:
        await held()

    async with AsyncClient(url) as client, Worker(client, workflows=[first, ready], concurrency=1):
        run = await client.start(first)
        await begun.wait()
        connection = await asyncpg.connect(url)
        async with connection.transaction():
            await connection.fetch("SELECT 1 FROM holdfast.runs WHERE id = $1 FOR UPDATE", run.id)
            may_end.set()
            assert await (await client.start(ready)).result(PATIENCE) == "ready"
            assert (await run.refresh()).status == "running"
        await connection.close()
        await run.result(PATIENCE)


async def test_a_due_run_is_not_starved_by_new_ones(database_url):
    """Oldest due first."""
    order: list[str] = []

    @step
    async def mark(name: str) -> None:
        order.append(name)

    @workflow
    async def body(name: str, wait: int) -> None:
        if wait:
            await sleep(wait)
        await mark(name)

    async with stage(database_url) as on:
        async with on.worker(body):
            old = await on.client.start(body, "old", 3600)
            await on.until_waiting(old)
        on.skip("2h")
        runs = [await on.client.start(body, f"new {n}", 0) for n in range(10)]
        async with on.worker(body, concurrency=1):
            for run in [old, *runs]:
                await run.result(PATIENCE)
    assert order[0] == "old"


async def test_a_long_journal_is_warned_of(database_url, caplog):
    @workflow
    async def body() -> int:
        await asyncio.gather(*(add(k, 0) for k in range(10_000)))
        return current_run().journal_length

    caplog.set_level(logging.WARNING)
    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result("60s") == 10_001
    assert "continue_as_new" in caplog.text
