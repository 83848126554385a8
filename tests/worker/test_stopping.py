"""Stopping: steps in flight may end, the rest is handed back at once, nothing counts as a crash; or without grace."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast import AsyncClient, MisplacedCall, StoreAway, Worker, sleep, step, workflow
from tests.worker.samples import ready, stubborn
from tests.worker.stage import ONCE, PATIENCE, SkippingStore, stage, until


class Gate:
    """A step that stays until it is let go, and says what became of it."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0
        self.go_on = asyncio.Event()

    def step(self):
        @step
        async def gate() -> str:
            self.begun += 1
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            return f"let go the {self.begun}. time"

        return gate


def body_of(gate):
    @workflow(name="gated")
    async def gated() -> str:
        return await gate()

    return gated


async def test_a_step_in_flight_ends_within_the_grace_and_its_result_is_recorded(database_url):
    gate = Gate()
    body = body_of(gate.step())
    async with stage(database_url) as on:
        run = await on.client.start(body)
        worker = on.worker(body)
        async with worker:
            await until(lambda: gate.begun)
            worker.stop()
            gate.go_on.set()
        assert (await on.record(run)).status == "completed"
        assert gate.begun == 1


async def test_the_result_that_came_in_time_is_kept_and_another_worker_does_the_rest(database_url):
    gate = Gate()
    step_one, executed = gate.step(), []

    @step
    async def after(text: str) -> str:
        executed.append(text)
        return text

    @workflow
    async def body() -> str:
        return await after(await step_one())

    async with stage(database_url) as on:
        run = await on.client.start(body)
        worker = on.worker(body)
        async with worker:
            await until(lambda: gate.begun)
            worker.stop()
            gate.go_on.set()
        assert executed == []
        assert "step_completed" in await on.kinds(run)
        async with on.worker(body):
            assert await run.result(PATIENCE) == "let go the 1. time"
    assert gate.begun == 1


async def test_a_step_that_does_not_end_within_the_grace_is_cancelled_and_executes_again_elsewhere(database_url):
    gate = Gate()
    body = body_of(gate.step())
    async with stage(database_url) as on:
        run = await on.client.start(body)
        async with on.worker(body, grace="10ms"):
            await until(lambda: gate.begun)
        assert gate.cancelled == 1
        gate.go_on.set()
        async with on.worker(body):
            assert await run.result(PATIENCE) == "let go the 2. time"


async def test_a_def_step_that_does_not_end_within_the_grace_is_told_and_executes_again_elsewhere(database_url):
    begun: list[int] = []
    told = threading.Event()
    stays = stubborn(begun, told)

    @workflow
    async def body() -> int:
        return stays()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        async with on.worker(body, grace="10ms"):
            await until(lambda: begun)
        await until(told.is_set)
        async with on.worker(body):
            assert await run.result(PATIENCE) == 2


async def test_a_run_handed_back_with_a_step_in_flight_is_due_at_once(database_url):
    gate = Gate()
    body = body_of(gate.step())
    async with stage(database_url) as on:
        run = await on.client.start(body)
        async with on.worker(body, grace=0):
            await until(lambda: gate.begun)
        record = await on.record(run)
        assert record.owner is None
        assert record.status == "waiting"
        assert record.due_at is not None
        assert record.due_at.timestamp() * 1_000_000 <= on.clock.now()


async def test_handing_back_is_no_takeover_and_no_crash(database_url):
    gate = Gate()
    body = body_of(gate.step())
    async with stage(database_url) as on:
        run = await on.client.start(body)
        for _ in range(3):
            begun = gate.begun
            async with on.worker(body, grace=0):
                await until(lambda seen=begun: gate.begun > seen)
            assert (await on.record(run)).crashes == 0
        gate.go_on.set()
        async with on.worker(body):
            await run.result(PATIENCE)
        assert "claimed" not in await on.kinds(run)


async def test_more_deploys_than_crashes_allowed_do_not_stop_a_run(database_url):
    gate = Gate()
    gate_step = gate.step()

    @workflow(max_crashes=1)
    async def body() -> str:
        return await gate_step()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        for n in range(1, 4):
            async with on.worker(body, grace=0):
                await until(lambda n=n: gate.begun == n)
        gate.go_on.set()
        async with on.worker(body):
            assert await run.result(PATIENCE) == "let go the 4. time"


async def test_a_worker_that_stops_claims_nothing_more(database_url):
    gate = Gate()
    body = body_of(gate.step())
    async with stage(database_url) as on:
        await on.client.start(body)
        worker = on.worker(body)
        async with worker:
            await until(lambda: gate.begun)
            worker.stop()
            await asyncio.sleep(0)
            late = await on.client.start(body)
            gate.go_on.set()
        assert (await on.record(late)).status == "pending"


async def test_no_step_begins_once_the_worker_was_told_to_stop(database_url):
    begun: list[str] = []

    @step
    async def first() -> None:
        worker.stop()
        begun.append("first")

    @step
    async def second() -> None:
        begun.append("second")

    @workflow
    async def body() -> None:
        await first()
        await second()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        worker = on.worker(body)
        await worker.run()
        assert begun == ["first"]
        async with on.worker(body):
            await run.result(PATIENCE)
        assert begun == ["first", "second"]


async def test_what_a_claim_took_whose_answer_was_lost_when_the_worker_stopped_is_no_crash(database_url):
    class Losing(SkippingStore):
        async def claim_runs(self, *args, **kwargs):
            await super().claim_runs(*args, **kwargs)
            worker.stop()
            raise StoreAway("the answer was lost")

    async with stage(database_url) as on:
        run = await on.client.start(ready)
        store = Losing(database_url, on.clock)
        await store.open()
        worker = Worker(store, workflows=[ready], clock=on.clock, lease="1000d")
        await worker.run()
        await store.close()
        record = await on.record(run)
        assert (record.epoch, record.owner) == (1, None)
        async with on.worker(ready):
            await run.result(PATIENCE)
        assert "claimed" not in await on.kinds(run)


async def test_a_short_sleep_is_handed_back_with_its_time(database_url):
    @workflow
    async def body() -> str:
        await sleep("5s")
        return "woke"

    async with stage(database_url) as on:
        run = await on.client.start(body)
        async with on.worker(body):
            held = await on.until_waiting(run)
            assert held.owner is not None
        record = await on.record(run)
        assert record.owner is None
        assert record.due_at == held.due_at
        on.skip("6s")
        async with on.worker(body):
            assert await run.result(PATIENCE) == "woke"


async def test_a_worker_that_has_stopped_has_left(database_url):
    gate = Gate()
    body = body_of(gate.step())
    async with stage(database_url) as on:
        async with on.worker(body):
            assert len(await on.store.list_workers()) == 1
        assert await on.store.list_workers() == []


async def test_stopping_twice_changes_nothing(database_url):
    gate = Gate()
    body = body_of(gate.step())
    async with stage(database_url) as on:
        run = await on.client.start(body)
        worker = on.worker(body)
        async with worker:
            await until(lambda: gate.begun)
            worker.stop()
            worker.stop()
            gate.go_on.set()
        assert (await on.record(run)).status == "completed"


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


async def test_a_retry_that_waits_is_handed_back_with_its_time(database_url):
    failed: list[int] = []

    @step
    async def shaky() -> str:
        failed.append(1)
        if len(failed) == 1:
            raise ConnectionError
        return "at last"

    @workflow
    async def body() -> str:
        return await shaky()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        async with on.worker(body):
            await on.until_waiting(run)
        assert (await on.record(run)).crashes == 0
        on.skip("2s")
        async with on.worker(body):
            assert await run.result(PATIENCE) == "at last"
    assert len(failed) == 2


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
