"""worker.drive: turns without a long-lived worker, for serverless functions and cron jobs."""

from __future__ import annotations

import asyncio

import holdfast
from holdfast import AsyncClient, Worker, step, workflow


@step
async def add(a: int, b: int) -> int:
    return a + b


@workflow
async def once() -> int:
    return await add(1, 2)


@workflow
async def resting() -> int:
    await add(1, 2)
    await holdfast.sleep("1h")
    return 1


@workflow
async def told() -> str:
    return str(await holdfast.wait_for_signal("go"))


@workflow
async def slow() -> None:
    for _ in range(100):
        await nap()


@step
async def nap() -> None:
    await asyncio.sleep(0.05)


def worker(client: AsyncClient) -> Worker:
    return Worker(client, workflows=[once, resting, told, slow])


async def test_a_run_is_driven_to_its_end(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(once)
        record = await worker(client).drive(run.id)
        assert (record.done, record.reason) == (True, "ended")
        assert await run.result(timeout=0) == 3
        assert await client.workers() == []


async def test_a_run_that_waits_says_until_when(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(resting)
        record = await worker(client).drive(run.id)
        assert (record.done, record.reason, record.status) == (False, "waiting", "waiting")
        assert record.due_at is not None


async def test_a_message_lets_the_next_drive_go_on(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(told)
        assert (await worker(client).drive(run.id)).reason == "waiting"
        await client.signal(run.id, "go", "on")
        assert (await worker(client).drive(run.id)).done
        assert await run.result(timeout=0) == "on"


async def test_a_budget_that_is_spent_leaves_the_run_for_the_next_drive(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(slow)
        record = await worker(client).drive(run.id, budget=0.2)
        assert (record.done, record.reason) == (False, "budget")
        assert not (await run.refresh()).status.is_final


async def test_without_a_run_everything_due_is_driven(database_url):
    async with AsyncClient(database_url) as client:
        runs = await client.start_many(once, [()] * 5)
        record = await worker(client).drive()
        assert (record.reason, record.taken) == ("waiting", 5)
        assert [await run.result(timeout=0) for run in runs] == [3] * 5


async def test_two_drives_at_once_execute_each_step_once(database_url):
    executed = []

    @step
    async def effect() -> None:
        executed.append(1)
        await asyncio.sleep(0.05)

    @workflow
    async def body() -> None:
        await effect()

    async with AsyncClient(database_url) as client, AsyncClient(database_url) as other:
        run = await client.start(body)
        drives = [Worker(one, workflows=[body]).drive(run.id) for one in (client, other)]
        records = await asyncio.gather(*drives)
        assert any(record.done for record in records)
        assert executed == [1]
