"""What the record of a drive says of a run that it could not take: whoever goes by it must not call for ever."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AsyncClient, UnknownWorkflow, Worker, step, workflow
from tests.worker.samples import add


@workflow
async def once() -> int:
    return await add(1, 2)


@workflow
async def other() -> None:
    pass


def worker(client: AsyncClient) -> Worker:
    return Worker(client, workflows=[once])


async def test_a_run_on_a_queue_that_the_worker_does_not_serve_is_refused(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(once, queue="others")
        with pytest.raises(UnknownWorkflow, match="'once' version '1' on queue 'others'"):
            await worker(client).drive(run.id)
        assert (await run.refresh()).status == "pending"


async def test_a_run_that_has_ended_is_done_also_for_a_worker_that_does_not_serve_it(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(once)
        await worker(client).drive(run.id)
        assert (await Worker(client, workflows=[other]).drive(run.id)).reason == "ended"


async def test_a_paused_run_does_not_ask_to_be_driven_again_before_it_is_resumed(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(once)
        await client.pause(run.id)
        record = await worker(client).drive(run.id)
        assert (record.reason, record.due_at) == ("waiting", None)


async def test_a_paused_run_asks_to_be_driven_at_its_deadline(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(once, deadline="1h")
        await client.pause(run.id)
        driven = await worker(client).drive(run.id)
        record = await client.store.get_run(run.id)
        assert record is not None
        assert driven.due_at == record.deadline_at


async def test_a_run_that_another_worker_holds_asks_to_be_driven_when_the_lease_of_that_worker_ends(database_url):
    began, may_end = asyncio.Event(), asyncio.Event()

    @step
    async def work() -> None:
        began.set()
        await may_end.wait()

    @workflow
    async def held() -> None:
        await work()

    async with AsyncClient(database_url) as client:
        run = await client.start(held)
        async with Worker(client, workflows=[held]):
            await began.wait()
            record = await Worker(client, workflows=[held]).drive(run.id)
            (holder,) = await client.workers()
            may_end.set()
        assert (record.reason, record.due_at) == ("waiting", holder.lease_until)
