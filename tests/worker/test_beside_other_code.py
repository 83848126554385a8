"""A worker beside other code: entered, waited for, stopped, left and entered again."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest

from holdfast import AsyncClient, MisplacedCall, Worker, step, workflow
from tests.worker.gates import Gate, body_of
from tests.worker.stage import ONCE, PATIENCE, stage, until


async def test_run_returns_when_it_is_stopped(database_url):
    gate = Gate()
    body = body_of(gate.step())
    gate.go_on.set()
    async with stage(database_url) as on:
        run = await on.client.start(body)
        worker = on.worker(body)
        working = asyncio.create_task(worker.run())
        await run.result(PATIENCE)
        worker.stop()
        await working
        assert worker.id is None


async def test_a_worker_stopped_before_it_began_never_begins(database_url):
    gate = Gate()
    body = body_of(gate.step())
    async with stage(database_url) as on:
        run = await on.client.start(body)
        worker = on.worker(body)
        worker.stop()
        await worker.run()
        assert (await on.record(run)).status == "pending"


async def test_a_worker_leaves_the_store_of_its_client_open(database_url):
    gate = Gate()
    body = body_of(gate.step())
    async with stage(database_url) as on:
        async with on.worker(body):
            pass
        await on.client.start(body)
        assert len([run async for run in on.client.runs()]) == 1


async def test_a_worker_that_was_given_a_url_works_beside_other_code(database_url):
    gate = Gate()
    body = body_of(gate.step())
    gate.go_on.set()
    async with stage(database_url) as on, Worker(database_url, workflows=[body]):
        assert await (await on.client.start(body)).result(PATIENCE) == "let go the 1. time"


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


async def test_a_worker_that_was_stopped_inside_its_block_works_when_it_is_entered_again(database_url):
    async with stage(database_url) as on:
        worker = on.worker(endless)
        async with worker:
            worker.stop()
            await worker.wait()
        async with worker:
            assert worker.id is not None


def test_a_worker_works_again_in_another_loop(database_url):
    gate = Gate()
    body = body_of(gate.step())
    gate.go_on.set()
    worker = Worker(database_url, workflows=[body])

    async def beside() -> str:
        async with AsyncClient(database_url) as client, worker:
            return await (await client.start(body)).result(PATIENCE)

    assert asyncio.run(beside()) == "let go the 1. time"
    assert asyncio.run(beside()) == "let go the 2. time"


async def test_a_worker_that_is_at_work_is_not_set_to_work_again(database_url):
    async with stage(database_url) as on:
        worker = on.worker(endless)
        async with worker:
            at_work = worker.id
            with pytest.raises(MisplacedCall, match="make another Worker"):
                await worker.run()
            with pytest.raises(MisplacedCall, match="make another Worker"):
                await worker.__aenter__()
            assert worker.id == at_work


async def test_entering_a_worker_twice_at_once_is_refused_the_second_time(database_url):
    async with AsyncClient(database_url) as client:
        worker = Worker(client, workflows=[endless])
        first, second = await asyncio.gather(worker.__aenter__(), worker.__aenter__(), return_exceptions=True)
        assert first is worker
        assert isinstance(second, MisplacedCall)
        assert len(await client.workers()) == 1
        await worker.__aexit__(None, None, None)
        assert await client.workers() == []


async def test_a_worker_whose_entering_failed_may_be_entered_again(database_url, monkeypatch):
    async with AsyncClient(database_url) as client:
        worker = Worker(client, workflows=[endless])
        with monkeypatch.context() as patch:
            patch.setattr(client.store, "register_worker", None)
            with pytest.raises(TypeError):
                await worker.__aenter__()
        async with worker:
            assert len(await client.workers()) == 1


async def test_cancelling_a_wait_for_a_worker_does_not_stop_it(database_url):
    async with stage(database_url) as on:
        worker = on.worker(endless)
        async with worker:
            waiting = asyncio.ensure_future(worker.wait())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert worker.id is not None


async def test_a_worker_told_to_leave_waits_for_no_step_and_writes_nothing(database_url):
    async with stage(database_url) as on:
        run = await on.client.start(endless)
        worker = on.worker(endless)
        async with worker:
            await until(lambda: worker._session.runs.attempts.tasks)
            owner = worker.id
            worker.leave()
            await worker.wait()
        assert (await on.record(run)).owner == owner


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 100])
async def test_a_worker_whose_stop_is_cut_short_renews_no_lease_any_more(database_url, turns):
    """Other workers leave one alone that renews its lease: its runs would be stuck for as long as the process lives."""
    async with stage(database_url) as on:
        await on.client.start(endless)
        worker = on.worker(endless, grace="1d")
        told = asyncio.Event()

        async def beside() -> None:
            async with worker:
                await until(lambda: worker._session.runs.attempts.tasks)
                told.set()

        besides = asyncio.ensure_future(beside())
        await told.wait()
        session = worker._session
        for _ in range(turns):
            await asyncio.sleep(0)
        assert worker._stopping.is_set()
        besides.cancel()
        with pytest.raises(asyncio.CancelledError):
            await besides
        assert session.ended.is_set()
        await session._pulse.join()
        assert not session._pulse._thread.is_alive()


async def cancelled_twice(worker: Worker, begun: asyncio.Event) -> None:
    working = asyncio.ensure_future(worker.run())
    await begun.wait()
    working.cancel()
    await until(lambda: worker._session.runs.is_stopping)
    working.cancel()
    await asyncio.wait([working])


async def cancelled_by_anyio(worker: Worker, begun: asyncio.Event) -> None:
    """Cancels the worker on every turn of the loop, as anyio does, until it has ended."""
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run)
        await begun.wait()
        group.cancel_scope.cancel()


async def cancelled_by_anyio_beside(worker: Worker, begun: asyncio.Event) -> None:
    with anyio.CancelScope() as scope:
        async with worker:
            await begun.wait()
            scope.cancel()
            await asyncio.sleep(0)


@pytest.mark.parametrize("cut_short", [cancelled_twice, cancelled_by_anyio, cancelled_by_anyio_beside])
async def test_a_worker_whose_stop_is_cut_short_hands_its_runs_back(database_url, cut_short):
    """Without grace. Nobody has to wait until its lease has ended, and it has not crashed."""
    begun = asyncio.Event()

    @step
    async def stays() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    async def body() -> None:
        await stays()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await cut_short(on.worker(body, grace="1d"), begun)
        record = await on.record(run)
        assert (record.owner, record.status, record.crashes) == (None, "waiting", 0)
        assert await on.client.workers() == []


def test_steps_that_are_cancelled_with_their_whole_loop_have_not_failed(database_url):
    """Nobody stopped the worker, and `asyncio.run` cancels whatever is left when its coroutine has returned."""
    go_on, begun = threading.Event(), []

    @step(retry=ONCE)
    async def on_the_loop() -> int:
        begun.append("loop")
        if not go_on.is_set():
            await asyncio.Event().wait()
        return 1

    @step(retry=ONCE)
    def in_a_thread() -> int:
        begun.append("thread")
        go_on.wait(60)
        return 2

    @workflow
    async def both() -> int:
        first, second = on_the_loop.start(), in_a_thread.start()
        return await first + await second

    async def return_under_the_worker() -> str:
        async with AsyncClient(database_url) as client:
            run = await client.start(both)
            working.append(asyncio.create_task(Worker(database_url, workflows=[both]).run()))
            await until(lambda: len(begun) == 2)
            return run.id

    async def go_on_with(run_id: str) -> object:
        async with AsyncClient(database_url) as client, Worker(database_url, workflows=[both]):
            return await (await client.get_run(run_id)).result()

    working: list[asyncio.Task[None]] = []
    run_id = asyncio.run(return_under_the_worker())
    go_on.set()
    assert asyncio.run(go_on_with(run_id)) == 3
    assert sorted(begun) == ["loop", "loop", "thread", "thread"]


def test_a_step_that_is_cancelled_with_its_drive_and_their_loop_has_not_failed(database_url):
    is_hanging, begun = True, threading.Event()

    @step(retry=ONCE)
    async def hang() -> int:
        begun.set()
        if is_hanging:
            await asyncio.Event().wait()
        return 1

    @workflow
    async def driven() -> int:
        return await hang()

    async def return_under_the_drive() -> str:
        async with AsyncClient(database_url) as client:
            run = await client.start(driven)
            driving.append(asyncio.create_task(Worker(database_url, workflows=[driven]).drive(run.id)))
            await until(begun.is_set)
            return run.id

    async def drive_on(run_id: str) -> object:
        async with AsyncClient(database_url) as client:
            await Worker(client, workflows=[driven]).drive(run_id)
            return await (await client.get_run(run_id)).result(PATIENCE)

    driving: list[asyncio.Task[object]] = []
    run_id = asyncio.run(return_under_the_drive())
    is_hanging = False
    assert asyncio.run(drive_on(run_id)) == 1
