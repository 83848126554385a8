"""SIGTERM in a process that has more than one worker, or handlers of its own."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager

import pytest

from holdfast import workflow
from holdfast.worker.interrupts import ECHO
from tests.worker.gates import Gate, body_of
from tests.worker.stage import PATIENCE, stage, until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="this system has no such signals")


@workflow
async def idle() -> None: ...


@pytest.fixture
def heard():
    """What the application's own handler was called with. Nothing in here may end the process that tests."""
    numbers = []
    before = signal.signal(signal.SIGTERM, lambda number, _: numbers.append(number))
    yield numbers
    signal.signal(signal.SIGTERM, before)


@asynccontextmanager
async def running(*workers):
    """Workers that run, and that are ended whatever becomes of the test."""
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        await until(lambda: all(worker.id for worker in workers))
        yield tasks
    finally:
        for worker in workers:
            worker.leave()
        await asyncio.gather(*tasks)


def sigterm() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def ended(*tasks) -> bool:
    return not (await asyncio.wait(tasks, timeout=PATIENCE))[1]


async def test_one_signal_stops_every_worker_that_runs_on_the_loop(database_url, heard):
    async with stage(database_url) as on, running(on.worker(idle), on.worker(idle)) as tasks:
        sigterm()
        assert await ended(*tasks)
        assert heard == []


async def test_a_worker_that_has_ended_leaves_the_signals_to_those_that_go_on(database_url, heard):
    async with stage(database_url) as on:
        first, second = on.worker(idle), on.worker(idle)
        async with running(first, second) as [one, other]:
            first.stop()
            assert await ended(one)
            sigterm()
            assert await ended(other)


async def test_a_second_signal_reaches_every_worker_on_the_loop_and_ends_the_grace(database_url, heard):
    gate = Gate()
    body = body_of(gate.step())
    async with stage(database_url) as on:
        workers = [on.worker(body, concurrency=1, grace="1h") for _ in range(2)]
        async with running(*workers) as tasks:
            await on.client.start_many(body, [(), ()])
            await until(lambda: gate.begun == 2)
            sigterm()
            await asyncio.sleep(2 * ECHO)
            assert not any(task.done() for task in tasks)
            sigterm()
            assert await ended(*tasks)


async def test_the_applications_own_handler_is_put_back(database_url, heard):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    async with stage(database_url) as on, running(on.worker(idle)) as tasks:
        sigterm()
        assert await ended(*tasks)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    sigterm()
    assert heard == [signal.SIGTERM]


async def test_a_handler_of_the_loop_is_put_back_too(database_url, heard):
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    async with stage(database_url) as on, running(on.worker(idle)) as tasks:
        sigterm()
        assert await ended(*tasks)
    assert not told.is_set()
    sigterm()
    await asyncio.wait_for(told.wait(), PATIENCE)
