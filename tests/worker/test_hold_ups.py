"""What is held up goes on: a step while the lease has lapsed, or while its run is paused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast import Retry, Worker, sleep, step, wait_for_signal, workflow
from holdfast.define import StepInfo
from holdfast.worker.threads import Threads
from tests.worker.samples import ready
from tests.worker.slow import JumpingClock, Slow
from tests.worker.stage import PATIENCE, Stalling, stage, until


@pytest.fixture
def begun() -> list[str]:
    return []


@pytest.fixture
def two_steps(begun):
    @step
    async def first() -> None:
        begun.append("first")

    @step
    async def second() -> None:
        begun.append("second")

    @workflow
    async def body() -> None:
        await first()
        await second()

    return body


async def test_no_step_begins_while_the_lease_has_lapsed_and_it_begins_when_it_is_renewed(
    database_url, two_steps, begun
):
    store, clock = Slow(database_url), JumpingClock()
    store.rows.set()
    await store.open()
    worker = Worker(store, workflows=[two_steps], clock=clock, lease="1h", stall="10d")
    async with stage(database_url) as on, worker:
        first = worker.id
        run = await on.client.start(two_steps)
        await until(lambda: store.waiting)
        # The turn that asks for the second step is durable; its answer comes when the lease has lapsed.
        store.is_away = True
        clock.jumped = 2 * 3_600_000_000
        await until(lambda: store.failed)
        store.turns.set()
        failed = store.failed
        await until(lambda: store.failed > failed)
        assert begun == ["first"]
        store.is_away = False
        await run.result(PATIENCE)
        assert begun == ["first", "second"]
        assert worker.id == first
    await store.close()


async def test_a_run_whose_step_was_given_up_while_it_was_held_up_is_written_once_when_the_lease_is_renewed(
    database_url, begun
):
    """The turn that gave the step up is under way then, and records what the run waits for."""

    @step
    async def first() -> None:
        begun.append("first")

    @step
    async def second() -> None:
        begun.append("second")

    @workflow
    async def body() -> str:
        await first()
        try:
            async with asyncio.timeout(60):
                await second()
        except TimeoutError:
            begun.append("timeout")
        return str(await wait_for_signal("go"))

    store, clock = Slow(database_url), Stalling()
    await store.open()
    worker = Worker(store, workflows=[body], clock=clock, lease="1h", stall="10d")
    async with stage(database_url) as on, worker:
        run = await on.client.start(body)
        await until(lambda: store.waiting)
        store.is_away = True
        clock.stalled = 2 * 3_600_000_000
        await until(lambda: store.failed)
        store.turns.set()
        await until(lambda: worker._session.runs._held_up)
        clock.skip("60s")
        await until(lambda: "timeout" in begun)
        store.is_away = False
        await on.until_waiting(run)
        await run.signal("go", "on")
        assert await run.result(PATIENCE) == "on"
        assert begun == ["first", "timeout"]
        assert "rows" not in store.waiting
        store.rows.set()
    await store.close()


async def test_a_retry_that_was_held_up_when_its_run_was_paused_begins_on_resume(database_url):
    tries = []

    @step(retry=Retry(attempts=2, initial="5s", jitter=0))
    async def flaky() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("no")
        return "done"

    @workflow
    async def body() -> str:
        return await flaky()

    store, clock = Slow(database_url), Stalling()
    store.rows.set()
    store.turns.set()
    await store.open()
    worker = Worker(store, workflows=[body], clock=clock, lease="1h", stall="10d")
    async with stage(database_url) as on, worker:
        run = await on.client.start(body)
        await until(lambda: tries)
        await on.until_waiting(run)
        store.is_away = True
        clock.stalled = 2 * 3_600_000_000
        clock.skip("5s")
        await until(lambda: worker._session.runs._held_up)
        await on.client.pause(run.id)
        await until(lambda: store.delivered)
        store.is_away = False

        async def is_given_back() -> bool:
            return (await on.record(run)).owner is None

        await until(is_given_back)
        assert (await on.record(run)).due_at is not None
        await on.client.resume(run.id)
        assert await run.result(PATIENCE) == "done"
    await store.close()


async def test_no_step_launched_in_a_batch_begins_after_the_lease_has_lapsed_amid_the_batch(database_url, begun):
    """As when the process is stopped while one of them begins."""
    store, clock = Slow(database_url), JumpingClock()
    store.rows.set()
    store.turns.set()
    await store.open()

    @step
    async def one(number: int) -> None:
        begun.append(f"step {number}")
        if number == 1:
            store.is_away = True
            clock.jumped = 2 * 3_600_000_000

    @workflow
    async def body() -> None:
        await asyncio.gather(*(one(number) for number in (1, 2, 3)))

    async with stage(database_url) as on, Worker(store, workflows=[body], clock=clock, lease="1h", stall="10d"):
        run = await on.client.start(body)
        await until(lambda: store.failed)
        failed = store.failed
        await until(lambda: store.failed > failed)
        assert begun == ["step 1"]
        store.is_away = False
        await run.result(PATIENCE)
        assert begun == ["step 1", "step 2", "step 3"]
    await store.close()


async def test_a_step_that_was_held_up_beside_one_in_flight_when_its_run_was_paused_begins_on_resume(
    database_url, begun
):
    store, clock, gate = Slow(database_url), JumpingClock(), asyncio.Event()
    store.rows.set()
    await store.open()

    @step
    async def long() -> None:
        await gate.wait()

    @step
    async def short(number: int) -> None:
        begun.append(number)

    @workflow
    async def body() -> None:
        work = long.start()
        await short(1)
        await short(2)
        await work

    worker = Worker(store, workflows=[body], clock=clock, lease="1h", stall="10d")
    async with stage(database_url) as on, worker:
        run = await on.client.start(body)
        await until(lambda: store.waiting)
        store.is_away = True
        clock.jumped = 2 * 3_600_000_000
        await until(lambda: store.failed)
        store.turns.set()
        await until(lambda: worker._session.runs._held_up)
        await on.client.pause(run.id)
        await until(lambda: store.delivered)
        store.is_away = False
        await until(lambda: not worker._session.runs._held_up)
        gate.set()

        async def is_given_back() -> bool:
            return (await on.record(run)).owner is None

        await until(is_given_back)
        assert begun == [1]
        await on.client.resume(run.id)
        await run.result(PATIENCE)
        assert begun == [1, 2]
    await store.close()


async def test_a_step_whose_thread_came_after_the_lease_had_lapsed_begins_when_it_is_renewed(
    database_url, begun, monkeypatch
):
    """As when the process is stopped between asking for a thread and that thread's first line."""
    store, clock = Slow(database_url), JumpingClock()
    store.rows.set()
    store.turns.set()
    await store.open()
    submit = Threads.submit

    def stopped_meanwhile(threads: Threads, call) -> None:
        if not store.failed:
            store.is_away = True
            clock.jumped = 2 * 3_600_000_000
        submit(threads, call)

    monkeypatch.setattr(Threads, "submit", stopped_meanwhile)

    @step
    def one() -> None:
        begun.append("one")

    @workflow
    def body() -> None:
        one()

    async with stage(database_url) as on, Worker(store, workflows=[body], clock=clock, lease="1h", stall="10d"):
        run = await on.client.start(body)
        await until(lambda: store.failed)
        failed = store.failed
        await until(lambda: store.failed > failed)
        assert begun == []
        store.is_away = False
        await run.result(PATIENCE)
        assert begun == ["one"]
    await store.close()


async def test_a_step_whose_middleware_outlasted_the_lease_begins_when_it_is_renewed(database_url, begun):
    """As when a limiter lets it wait for its turn while the database is away."""
    store, clock = Slow(database_url), JumpingClock()
    store.rows.set()
    store.turns.set()
    await store.open()

    @step
    async def one() -> None:
        begun.append("one")

    @workflow
    async def body() -> None:
        await one()

    @asynccontextmanager
    async def limiter(_: StepInfo) -> AsyncIterator[None]:
        store.is_away = True
        clock.jumped = 2 * 3_600_000_000
        await until(lambda: store.failed)
        yield

    worker = Worker(store, workflows=[body], clock=clock, lease="1h", stall="10d", middleware=[limiter])
    async with stage(database_url) as on, worker:
        run = await on.client.start(body)
        await until(lambda: store.failed)
        failed = store.failed
        await until(lambda: store.failed > failed)
        assert begun == []
        store.is_away = False
        await run.result(PATIENCE)
        assert begun == ["one"]
    await store.close()


async def test_a_step_asked_for_by_a_turn_during_whose_commit_a_pause_came_begins_on_resume(
    database_url, two_steps, begun
):
    store = Slow(database_url)
    store.rows.set()
    await store.open()
    async with stage(database_url) as on, Worker(store, workflows=[two_steps], lease="1000d"):
        run = await on.client.start(two_steps)
        await until(lambda: store.waiting == ["turns"])
        await on.client.pause(run.id)
        await until(lambda: store.delivered)
        store.turns.set()
        await until(lambda: _is_given_back(on, run))
        assert begun == ["first"]
        await on.client.resume(run.id)
        await on.until_status(run, "completed")
        assert begun == ["first", "second"]
    await store.close()


async def _is_given_back(on, run) -> bool:
    return (await on.record(run)).owner is None


async def test_a_run_in_a_short_sleep_takes_none_of_the_concurrency(database_url):
    """The run never wakes: no alarm rings in this test."""

    @workflow
    async def sleepy() -> None:
        await sleep("9s")

    worker = Worker(database_url, workflows=[sleepy, ready], clock=JumpingClock(), lease="1000d", concurrency=1)
    async with stage(database_url) as on, worker:
        run = await on.client.start(sleepy)
        await on.until_waiting(run)
        assert await (await on.client.start(ready)).result(PATIENCE) == "ready"
