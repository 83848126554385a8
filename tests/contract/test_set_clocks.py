"""Somebody sets the clock of the database: leases and timers go by it, forwards and backwards."""

import asyncio
import time

import holdfast
from holdfast.worker.clock import SET_BACK, SystemClock
from tests.servers import Databases

HOUR = 3_600_000_000


def test_a_worker_follows_a_clock_that_was_set_back():
    clock = SystemClock()
    at = time.time_ns() // 1_000 + HOUR
    clock.observe(at, clock.monotonic())
    assert clock.now() >= at
    clock.observe(at - HOUR, clock.monotonic())
    assert at - HOUR <= clock.now() < at - HOUR + 10_000_000


def test_a_slow_answer_does_not_set_the_time_back():
    clock = SystemClock()
    at = time.time_ns() // 1_000 + HOUR
    clock.observe(at, clock.monotonic())
    before = clock.now()
    clock.observe(at - SET_BACK // 2, clock.monotonic())
    assert clock.now() >= before


async def test_a_run_started_after_the_clock_was_set_back_is_retried_and_wakes_in_time(postgres: Databases):
    """The database's clock is the store's: the worker has seen it an hour ahead before."""

    @holdfast.step(retry=holdfast.Retry(attempts=2, initial="0.05s", jitter=0))
    async def flaky() -> int:
        if holdfast.current_step().attempt == 1:
            raise ConnectionError
        return 1

    @holdfast.workflow
    async def patient() -> int:
        await holdfast.sleep("0.05s")
        return await flaky()

    async with holdfast.AsyncClient(postgres.create_database()) as client:
        worker = holdfast.Worker(client, workflows=[patient])
        ahead = time.time_ns() // 1_000 + HOUR
        clock = worker._plan.clock
        clock.observe(ahead, clock.monotonic())
        assert clock.now() >= ahead
        async with worker:
            run = await client.start(patient)
            async with asyncio.timeout(30):
                assert await run.result() == 1
