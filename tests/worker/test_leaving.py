"""Waiting for a worker beside other code, and leaving without grace."""

from __future__ import annotations

import asyncio

from holdfast import step, workflow
from tests.worker.stage import stage, until


@step
async def for_ever() -> None:
    await asyncio.Event().wait()


@workflow
async def endless() -> None:
    await for_ever()


async def test_waiting_for_a_worker_ends_when_somebody_has_stopped_it(database_url):
    async with stage(database_url) as on:
        worker = on.worker(endless)
        async with worker:
            waiting = asyncio.ensure_future(worker.wait())
            worker.stop()
            await waiting
            assert worker.id is None


async def test_whoever_stops_waiting_leaves_the_worker_alone(database_url):
    async with stage(database_url) as on:
        worker = on.worker(endless)
        async with worker:
            waiting = asyncio.ensure_future(worker.wait())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert worker.id is not None


async def test_a_worker_that_leaves_waits_for_no_step_and_writes_nothing(database_url):
    async with stage(database_url) as on:
        run = await on.client.start(endless)
        worker = on.worker(endless)
        async with worker:
            await until(lambda: worker._session.runs.attempts.tasks)
            owner = worker.id
            worker.leave()
            await worker.wait()
        assert (await on.record(run)).owner == owner
