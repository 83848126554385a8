"""Stopping: steps in flight may end, the rest is handed back at once, nothing counts as a crash; or without grace."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from holdfast import StoreAway, Worker, sleep, step, workflow
from tests.worker.gates import Gate, body_of
from tests.worker.samples import ready, stubborn
from tests.worker.stage import PATIENCE, SkippingStore, stage, until


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


async def test_a_result_that_came_within_the_grace_is_kept_and_another_worker_does_the_rest(database_url):
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


async def test_a_def_step_that_does_not_end_within_the_grace_sees_it_and_executes_again_elsewhere(database_url):
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


async def test_steps_that_occupy_all_threads_of_the_loop_keep_no_worker_from_stopping(database_url):
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    begun, go_on = threading.Event(), threading.Event()

    def stay() -> None:
        begun.set()
        go_on.wait()

    @step
    async def stays() -> None:
        await asyncio.to_thread(stay)

    @workflow
    async def body() -> None:
        await stays()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        try:
            async with asyncio.timeout(PATIENCE), on.worker(body, grace="10ms"):
                await until(begun.is_set)
        finally:
            go_on.set()
        assert (await on.record(run)).status == "waiting"


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


async def test_a_run_claimed_by_a_stopping_worker_that_lost_the_answer_counts_no_crash(database_url):
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
