"""A lost lease: the worker drops its runs, tells their steps, and goes on under another id."""

from __future__ import annotations

import asyncio
import threading

from holdfast import LeaseLost, Worker, current_step, sleep, step, workflow
from tests.worker.samples import nothing, ready, stubborn
from tests.worker.stage import LATER, PATIENCE, SkippingStore, reap, stage, until


async def test_a_worker_that_lost_its_lease_registers_anew_under_another_id(database_url):
    async with stage(database_url) as on, on.worker(ready, lease="3s") as worker:
        first = worker.id
        assert await reap(on) == [first]
        await until(lambda: worker.id not in (None, first))

        async def is_there() -> bool:
            return [one.id for one in await on.store.list_workers()] == [worker.id]

        await until(is_there)


async def test_a_worker_that_lost_its_lease_goes_on_with_new_runs(database_url):
    async with stage(database_url) as on, on.worker(ready, lease="3s") as worker:
        first = worker.id
        await reap(on)
        await until(lambda: worker.id not in (None, first))
        assert await (await on.client.start(ready)).result(PATIENCE) == "ready"


async def test_a_worker_that_lost_its_lease_drops_its_runs_and_cancels_their_steps(database_url):
    begun: list[int] = []
    cancelled: list[int] = []
    go_on = asyncio.Event()

    @step
    async def gate() -> int:
        begun.append(1)
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            cancelled.append(len(begun))
            raise
        return len(begun)

    @workflow
    async def body() -> int:
        return await gate()

    async with stage(database_url) as on, on.worker(body, lease="3s"):
        run = await on.client.start(body)
        await until(lambda: begun)
        await reap(on)
        await until(lambda: cancelled == [1])
        go_on.set()
        assert await run.result(PATIENCE) == 2


async def test_a_def_step_of_a_lost_run_sees_that_it_is_cancelled(database_url):
    begun: list[int] = []
    told = threading.Event()
    stays = stubborn(begun, told)

    @workflow
    def body() -> int:
        return stays()

    async with stage(database_url) as on, on.worker(body, lease="3s"):
        run = await on.client.start(body)
        await until(lambda: begun)
        await reap(on)
        await until(told.is_set)
        assert await run.result(PATIENCE) == 2


async def test_a_def_step_of_a_lost_run_learns_it_from_its_next_heartbeat(database_url):
    told: list[LeaseLost] = []
    begun: list[int] = []

    @step
    def stubborn() -> int:
        begun.append(1)
        # The next execution may begin before this thread has had its turn.
        is_first = len(begun) == 1
        while is_first:
            try:
                current_step().heartbeat()
            except LeaseLost as error:
                told.append(error)
                raise
            threading.Event().wait(0.001)
        return len(begun)

    @workflow
    def body() -> int:
        return stubborn()

    async with stage(database_url) as on, on.worker(body, lease="3s"):
        run = await on.client.start(body)
        await until(lambda: begun)
        await reap(on)
        await until(lambda: told)
        assert run.id in str(told[0])
        assert await run.result(PATIENCE) == 2


async def test_a_run_taken_over_after_a_lost_lease_is_fenced_and_counts_a_crash(database_url):
    begun: list[int] = []

    @step
    async def gate() -> None:
        begun.append(1)
        await asyncio.Event().wait()

    @workflow
    async def body() -> None:
        await gate()

    async with stage(database_url) as on, on.worker(body, lease="3s", grace=0):
        run = await on.client.start(body)
        await until(lambda: begun)
        await reap(on)
        await until(lambda: len(begun) == 2)
        assert "claimed" in await on.kinds(run)
        assert (await on.record(run)).crashes == 1


async def test_a_late_result_of_a_lost_run_is_refused_and_the_new_owners_counts(database_url, caplog):
    """The first worker does not know yet that it was reaped; its turn comes after the takeover."""
    gates = [asyncio.Event(), asyncio.Event()]
    begun: list[int] = []

    @step
    async def gate() -> str:
        begun.append(1)
        mine = len(begun)
        await gates[mine - 1].wait()
        return f"of the {mine}. worker"

    @workflow
    async def body() -> str:
        return await gate()

    # The first one is full, so that it does not claim the run again itself.
    async with stage(database_url) as on, on.worker(body, concurrency=1):
        run = await on.client.start(body)
        await until(lambda: begun)
        async with on.worker(body):
            await reap(on, 2_000 * 24 * LATER)
            await until(lambda: len(begun) == 2)
            gates[0].set()
            await until(lambda: "was taken over by another worker" in caplog.text)
            gates[1].set()
            assert await run.result(PATIENCE) == "of the 2. worker"


async def test_runs_that_are_lost_together_are_one_line_in_the_log(database_url, caplog):
    gates = [asyncio.Event(), asyncio.Event()]
    begun: list[str] = []

    @step
    async def gate() -> None:
        begun.append(current_step().run.id)
        await gates[begun.count(begun[-1]) - 1].wait()

    @workflow
    async def body() -> None:
        await gate()

    async with stage(database_url) as on, on.worker(body, concurrency=20):
        runs = await on.client.start_many(body, [()] * 20)
        await until(lambda: len(begun) == 20)
        async with on.worker(body, concurrency=20):
            await reap(on, 2_000 * 24 * LATER)
            await until(lambda: len(begun) == 40)
            gates[0].set()
            await until(lambda: "taken over" in caplog.text)
            gates[1].set()
            for run in runs:
                await run.result(PATIENCE)
    told = [record.getMessage() for record in caplog.records if "taken over" in record.message]
    assert len(told) < 5
    assert sum(int(line.split()[0]) for line in told if "runs were taken over" in line) >= 16
    # The line names only a few of the runs.
    assert max(sum(run.id in line for run in runs) for line in told) == 5


async def test_a_parked_run_survives_a_lost_lease_without_a_crash(database_url):
    @workflow
    async def body() -> str:
        await sleep("30d")
        return "woke"

    async with stage(database_url) as on, on.worker(body, lease="3s") as worker:
        run = await on.client.start(body)
        await on.until_waiting(run)
        first = worker.id
        await reap(on)
        await until(lambda: worker.id not in (None, first))
        on.skip("31d")
        assert await run.result(PATIENCE) == "woke"
        assert (await on.record(run)).crashes == 0


async def test_a_run_that_only_waited_at_a_takeover_counts_no_crash(database_url):
    @workflow
    async def body() -> str:
        await nothing()
        await sleep("9900ms")
        return "woke"

    async with stage(database_url) as on, on.worker(body, lease="1s") as worker:
        run = await on.client.start(body)
        await on.until_waiting(run)
        first = worker.id
        await reap(on, 2_000_000)

        async def is_held_again() -> bool:
            record = await on.record(run)
            return record.owner not in (None, first) and record.status == "waiting"

        await until(is_held_again)
        assert "claimed" in await on.kinds(run)
        assert (await on.record(run)).crashes == 0
        on.skip("10s")
        assert await run.result(PATIENCE) == "woke"


async def test_a_worker_that_claims_a_run_again_after_it_was_reaped_goes_on_with_it(database_url):
    """As on a machine that was suspended: by its own clock the lease holds, and only the claim tells it otherwise."""
    gates = [asyncio.Event(), asyncio.Event()]
    begun: list[int] = []

    @step
    async def gate() -> str:
        begun.append(1)
        mine = len(begun)
        await gates[mine - 1].wait()
        return f"of the {mine}. claim"

    @step
    async def after(text: str) -> str:
        return text

    @workflow
    async def body() -> str:
        return await after(await gate())

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: begun)
        await reap(on, 2_000 * 24 * LATER)
        await until(lambda: len(begun) == 2)
        for one in gates:
            one.set()
        assert await run.result(PATIENCE) == "of the 2. claim"
        assert (await on.kinds(run)).count("step_completed") == 2


async def test_a_worker_that_was_reaped_claims_nothing_before_it_has_registered_anew(database_url):
    """By the worker's own clock its lease holds: only the store can tell it otherwise."""
    claims: list[tuple[str, int]] = []

    class Watched(SkippingStore):
        async def claim_runs(self, worker_id, *args, **kwargs):
            found = await super().claim_runs(worker_id, *args, **kwargs)
            claims.append((worker_id, len(found)))
            return found

    async with stage(database_url) as on:
        on.store = Watched(database_url, on.clock)
        await on.store.open()
        async with Worker(on.store, workflows=[ready], clock=on.clock, lease="1000d") as worker:
            first = worker.id
            await (await on.client.start(ready)).result(PATIENCE)
            assert (first, 1) in claims
            claims.clear()
            assert await reap(on, 2_000 * 24 * LATER) == [first]
            await (await on.client.start(ready)).result(PATIENCE)
            assert worker.id != first
        await on.store.close()
    assert all(count == 0 for worker_id, count in claims if worker_id == first)
