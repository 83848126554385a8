"""The lease: renewed while the worker lives; lost, the worker drops its runs, registers anew and goes on."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast import AsyncClient, LeaseLost, StoreAway, StoreError, Worker, current_step, sleep, step, workflow
from holdfast.model import Instant, Lane
from holdfast.store import SqliteStore
from holdfast.store.sqlite.transactions import host_clock
from holdfast.worker.clock import SystemClock
from tests.worker.stage import SkippingStore, Stage, stage, until

PATIENCE = "20s"
LATER = 3_600_000_000


@workflow
async def nothing() -> str:
    return "done"


@step
async def add_nothing() -> None: ...


async def reap(on: Stage, later: int = LATER) -> list[str]:
    """Somebody else finds every lease lapsed, and by the time the worker hears of it that time has come."""
    dead = await on.store.reap_workers("somebody", now=on.clock.now() + later)
    on.skip(later / 1_000_000)
    return dead


async def test_renewals_are_seen_by_others(database_url):
    async with stage(database_url, nothing, lease="1s") as on:
        (first,) = await on.store.list_workers()

        async def is_renewed() -> bool:
            (now,) = await on.store.list_workers()
            return now.renewed_at > first.renewed_at and now.lease_until > first.lease_until

        await until(is_renewed)


async def test_a_lease_is_renewed_while_a_step_blocks_the_loop(database_url):
    renewals: list[Instant | None] = []
    begun = threading.Event()

    class Watched(SqliteStore):
        def renew_lease(self, worker_id, lease, *, now=None):
            renewals.append(super().renew_lease(worker_id, lease, now=now))
            return renewals[-1]

    @step
    async def rude() -> int:
        begun.set()
        before = len(renewals)
        while len(renewals) == before:
            threading.Event().wait(0.01)
        return len(renewals)

    @workflow
    async def body() -> int:
        return await rude()

    store = Watched(database_url.removeprefix("sqlite:///"), database_url, "default")
    await store.open()
    async with Worker(store, workflows=[body], lease="1s"), stage(database_url) as on:
        assert await (await on.client.start(body)).result(PATIENCE) >= 1
    await store.close()
    assert None not in renewals


async def test_a_worker_that_lost_its_lease_registers_anew_under_another_id(database_url):
    async with stage(database_url) as on, on.worker(nothing, lease="3s") as worker:
        first = worker.id
        assert await reap(on) == [first]
        await until(lambda: worker.id not in (None, first))

        async def is_there() -> bool:
            return [one.id for one in await on.store.list_workers()] == [worker.id]

        await until(is_there)


async def test_a_worker_that_lost_its_lease_goes_on_with_new_runs(database_url):
    async with stage(database_url) as on, on.worker(nothing, lease="3s") as worker:
        first = worker.id
        await reap(on)
        await until(lambda: worker.id not in (None, first))
        assert await (await on.client.start(nothing)).result(PATIENCE) == "done"


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


async def test_a_def_step_of_a_lost_run_is_told(database_url):
    told = threading.Event()
    begun: list[int] = []

    @step
    def stubborn() -> int:
        me = current_step()
        begun.append(1)
        while len(begun) == 1 and not me.cancelled:
            threading.Event().wait(0.001)
        if me.cancelled:
            told.set()
        return len(begun)

    @workflow
    def body() -> int:
        return stubborn()

    async with stage(database_url) as on, on.worker(body, lease="3s"):
        run = await on.client.start(body)
        await until(lambda: begun)
        await reap(on)
        await until(told.is_set)
        assert await run.result(PATIENCE) == 2


async def test_a_def_step_of_a_lost_run_is_told_by_its_next_heartbeat(database_url):
    told: list[LeaseLost] = []
    begun: list[int] = []

    @step
    def stubborn() -> int:
        begun.append(1)
        while len(begun) == 1:
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


async def test_a_run_found_only_waiting_after_a_takeover_is_innocent(database_url):
    @workflow
    async def body() -> str:
        await add_nothing()
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


async def test_a_worker_that_claims_again_what_it_was_reaped_of_goes_on_with_it(database_url):
    """A machine that was suspended: its lease holds by its own clock, and it hears of nothing before it claims."""
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
    """Its lease holds by its own clock: nobody but the store can tell it."""
    claims: list[tuple[str, int]] = []

    class Watched(SkippingStore):
        async def claim_runs(self, worker_id, *args, **kwargs):
            found = await super().claim_runs(worker_id, *args, **kwargs)
            claims.append((worker_id, len(found)))
            return found

    async with stage(database_url) as on:
        on.store = Watched(database_url, on.clock)
        await on.store.open()
        async with Worker(on.store, workflows=[nothing], clock=on.clock, lease="1000d") as worker:
            first = worker.id
            await (await on.client.start(nothing)).result(PATIENCE)
            assert (first, 1) in claims
            claims.clear()
            assert await reap(on, 2_000 * 24 * LATER) == [first]
            await (await on.client.start(nothing)).result(PATIENCE)
            assert worker.id != first
        await on.store.close()
    assert all(count == 0 for worker_id, count in claims if worker_id == first)


async def test_a_claim_sets_the_clock_right_as_a_renewal_does(database_url):
    ahead = [0]
    store = SqliteStore(
        database_url.removeprefix("sqlite:///"), database_url, "default", clock=lambda: host_clock() + ahead[0]
    )
    await store.open()
    clock = SystemClock()
    async with AsyncClient(store) as client, Worker(store, workflows=[nothing], clock=clock, lease="1000d"):
        ahead[0] = LATER
        await (await client.start(nothing)).result(PATIENCE)
        assert clock.now() - host_clock() > LATER // 2
    await store.close()


# -- heartbeats --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_heartbeat_is_progress(database_url, colour):
    beaten, done = threading.Event(), threading.Event()

    @step
    async def slow() -> None:
        current_step().heartbeat({"share": 0.5})
        beaten.set()
        while not done.is_set():
            await asyncio.sleep(0.002)

    @step
    def quick() -> None:
        current_step().heartbeat("half")
        beaten.set()
        done.wait(20)

    @workflow
    async def body() -> None:
        if colour == "async":
            await slow()
        else:
            quick()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await on.store.register_worker("dead", [Lane("body", "1")], 1_000_000, now=on.clock.now())
        await on.store.claim_runs("dead", [Lane("body", "1")], 1, now=on.clock.now())
        await reap(on)
        async with on.worker(body):
            await until(beaten.is_set)

            async def is_cleared() -> bool:
                return (await on.record(run)).crashes == 0

            await until(is_cleared)
            assert (await on.record(run)).status == "running"
            done.set()
            await run.result(PATIENCE)


async def test_without_a_heartbeat_the_crash_stays_until_a_turn_is_accepted(database_url):
    go_on, begun = asyncio.Event(), asyncio.Event()

    @step
    async def gate() -> None:
        begun.set()
        await go_on.wait()

    @workflow
    async def body() -> None:
        await gate()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await on.store.register_worker("dead", [Lane("body", "1")], 1_000_000, now=on.clock.now())
        await on.store.claim_runs("dead", [Lane("body", "1")], 1, now=on.clock.now())
        await reap(on)
        async with on.worker(body):
            await begun.wait()
            assert (await on.record(run)).crashes == 1
            go_on.set()
            await run.result(PATIENCE)
            assert (await on.record(run)).crashes == 0


# -- a store that is away ----------------------------------------------------------------------------------------------


class Flaky(SqliteStore):
    """A store that can be made to be away for some of its methods."""

    def __init__(self, url: str) -> None:
        super().__init__(url.removeprefix("sqlite:///"), url, "default")
        self.away: set[str] = set()
        self.refused: list[str] = []

    def _check(self, what: str) -> None:
        if what in self.away:
            self.refused.append(what)
            raise StoreAway("the database is away")

    async def register_worker(self, *args, **kwargs):
        self._check("register_worker")
        return await super().register_worker(*args, **kwargs)

    async def next_due(self, *args, **kwargs):
        self._check("next_due")
        return await super().next_due(*args, **kwargs)

    async def claim_runs(self, *args, **kwargs):
        self._check("claim_runs")
        return await super().claim_runs(*args, **kwargs)

    def commit_turns(self, *args, **kwargs):
        self._check("commit_turns")
        return super().commit_turns(*args, **kwargs)

    def renew_lease(self, *args, **kwargs):
        self._check("renew_lease")
        return super().renew_lease(*args, **kwargs)


@pytest.mark.parametrize("what", ["next_due", "claim_runs", "commit_turns"])
async def test_a_worker_waits_for_a_store_that_went_away_and_goes_on(database_url, what):
    executed: list[int] = []

    @step
    async def act() -> int:
        executed.append(1)
        return len(executed)

    @workflow
    async def body() -> int:
        return await act()

    store = Flaky(database_url)
    await store.open()
    async with Worker(store, workflows=[body]), stage(database_url) as on:
        store.away.add(what)
        run = await on.client.start(body)
        await until(lambda: store.refused)
        store.away.clear()
        assert await run.result(PATIENCE) == 1
    await store.close()
    assert executed == [1]


async def test_renewals_that_fail_for_a_while_lose_nothing(database_url):
    store = Flaky(database_url)
    await store.open()
    async with Worker(store, workflows=[nothing], lease="2s") as worker:
        first = worker.id
        store.away.add("renew_lease")
        await until(lambda: store.refused)
        store.away.clear()
        async with stage(database_url) as on:
            assert await (await on.client.start(nothing)).result(PATIENCE) == "done"
        assert worker.id == first
    await store.close()


async def test_a_start_with_a_store_that_can_not_be_opened_says_so(tmp_path):
    url = f"sqlite:///{tmp_path / 'no' / 'such' / 'folder' / 'holdfast.db'}"
    with pytest.raises(StoreError, match="folder"):
        async with Worker(url, workflows=[nothing]):
            pass


async def test_a_worker_that_lost_its_lease_waits_for_a_store_that_is_away_to_register_anew(database_url):
    store = Flaky(database_url)
    await store.open()
    try:
        async with stage(database_url) as on, Worker(store, workflows=[nothing], lease="3s") as worker:
            first = worker.id
            store.away.add("register_worker")
            await on.store.reap_workers("somebody", now=on.clock.now() + 3_600_000_000)
            await until(lambda: store.refused)
            store.away.clear()
            await until(lambda: worker.id not in (None, first))
            assert await (await on.client.start(nothing)).result("20s") == "done"
    finally:
        await store.close()
