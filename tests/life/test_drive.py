"""drive: turns without a long-lived worker, on every store, one function call after another."""

from __future__ import annotations

from typing import Any

import holdfast
from holdfast import AsyncClient, RunFilter, Worker, step, workflow

executed: list[int] = []


@step
async def double(n: int) -> int:
    executed.append(n)
    return 2 * n


@workflow
async def once(n: int) -> int:
    return await double(n)


@workflow
async def told(n: int) -> list[Any]:
    first = await double(n)
    return [first, await holdfast.wait_for_signal("go")]


@workflow
async def parent() -> int:
    return await once(5)


@workflow
async def rounds(left: int) -> str:
    if left:
        if left == 2:
            await holdfast.wait_for_signal("go")
        rounds.continue_as_new(left - 1)
    return "over"


def worker(client: AsyncClient) -> Worker:
    return Worker(client, workflows=[once, told, parent, rounds])


async def test_a_run_is_driven_to_its_end(url):
    async with AsyncClient(url) as client:
        run = await client.start(once, 1)
        driven = await worker(client).drive(run.id)
        assert (driven.done, driven.reason) == (True, "ended")
        assert await run.result(timeout=0) == 2


async def test_each_drive_goes_on_where_the_last_one_stopped(url):
    executed.clear()
    async with AsyncClient(url) as client:
        run = await client.start(told, 1)
        driven = await worker(client).drive(run.id)
        assert (driven.done, driven.reason) == (False, "waiting")
        await run.signal("go", "on")
        assert (await worker(client).drive(run.id)).done
        assert await run.result(timeout=0) == [2, "on"]
        assert executed == [1]


async def test_a_drive_without_a_run_takes_whatever_is_due(url):
    async with AsyncClient(url) as client:
        runs = await client.start_many(once, [(number,) for number in range(5)])
        await worker(client).drive()
        assert [await run.result(timeout=0) for run in runs] == [0, 2, 4, 6, 8]


async def test_a_drive_leaves_no_worker_behind(url):
    async with AsyncClient(url) as client:
        run = await client.start(told, 1)
        await worker(client).drive(run.id)
        assert await client.workers() == []


async def test_a_parent_and_its_child_are_driven_by_turns(url):
    async with AsyncClient(url) as client:
        run = await client.start(parent)
        for _ in range(5):
            if (await worker(client).drive(run.id)).done:
                break
            await worker(client).drive()
        assert await run.result(timeout=0) == 10


async def test_a_cancelled_run_is_driven_through_its_cleanup(url):
    async with AsyncClient(url) as client:
        run = await client.start(told, 1)
        await worker(client).drive(run.id)
        await run.cancel()
        assert (await worker(client).drive(run.id)).status == "cancelled"


async def test_a_run_that_has_ended_is_done_at_once(url):
    async with AsyncClient(url) as client:
        run = await client.start(once, 1)
        await worker(client).drive(run.id)
        assert (await worker(client).drive(run.id)).done


async def test_a_run_that_continues_as_new_is_driven_where_it_goes_on(url):
    async with AsyncClient(url) as client:
        run = await client.start(rounds, 4)
        driven = await worker(client).drive(run.id)
        assert (driven.done, driven.reason, driven.status) == (False, "waiting", "waiting")
        [live] = [one.id async for one in client.runs(RunFilter(status="waiting"))]
        assert driven.run_id == live != run.id
        await run.signal("go")
        driven = await worker(client).drive(run.id)
        assert (driven.done, driven.status) == (True, "completed")
        assert await run.result(timeout=0) == "over"
