"""worker.drive: turns without a long-lived worker, for serverless functions and cron jobs."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, DefinitionError, LeaseLost, RunNotFound, Worker, step, workflow
from holdfast.model import ClaimedRun, Message
from holdfast.store import News
from holdfast.store.sqlite import SqliteStore
from tests.worker.samples import add
from tests.worker.stage import LATER, SkippingClock, SkippingStore, Stalling, until

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


@workflow
async def once() -> int:
    return await add(1, 2)


@workflow
async def resting() -> int:
    await add(1, 2)
    await holdfast.sleep("1h")
    return 1


@workflow
async def told() -> str:
    return str(await holdfast.wait_for_signal("go"))


@workflow
async def slow() -> None:
    for _ in range(100):
        await nap()


@step
async def nap() -> None:
    await asyncio.sleep(0.05)


@workflow
async def noticed() -> str:
    return str(await holdfast.wait_for_event("news"))


@step
async def survive() -> str:
    if "DEADLY" in os.environ:
        os._exit(9)
    return "alive"


@workflow
async def deadly() -> str:
    return await survive()


@step(transaction=True)
def keep(db: sqlite3.Connection) -> None:
    """It writes so much that its commit takes a while."""
    db.execute("CREATE TABLE kept (id INTEGER)")
    db.executemany("INSERT INTO kept VALUES (?)", ((number,) for number in range(50_000)))


@workflow
async def keeping() -> None:
    keep()


@workflow
async def awaiting() -> None:
    await keeping()


async def killed_in_the_middle(url: str) -> None:
    """What a process does that is killed while it drives a run."""
    async with AsyncClient(url) as client:
        run = await client.start(deadly, key="d")
        os.environ["DEADLY"] = "yes"
        await Worker(client, workflows=[deadly]).drive(run.id)


def worker(client: AsyncClient) -> Worker:
    return Worker(client, workflows=[once, resting, told, slow, noticed])


async def test_a_run_is_driven_to_its_end(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(once)
        record = await worker(client).drive(run.id)
        assert (record.done, record.reason) == (True, "ended")
        assert await run.result(timeout=0) == 3
        assert await client.workers() == []


async def test_a_handle_given_to_drive_is_refused_with_the_id_to_give_instead(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(once)
        with pytest.raises(DefinitionError, match=f"give its id, '{run.id}'"):
            await worker(client).drive(run)


async def test_a_run_that_waits_says_until_when(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(resting)
        record = await worker(client).drive(run.id)
        assert (record.done, record.reason, record.status) == (False, "waiting", "waiting")
        assert record.due_at is not None


async def test_a_message_lets_the_next_drive_go_on(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(told)
        assert (await worker(client).drive(run.id)).reason == "waiting"
        await client.signal(run.id, "go", "on")
        assert (await worker(client).drive(run.id)).done
        assert await run.result(timeout=0) == "on"


async def test_a_budget_that_is_spent_leaves_the_run_for_the_next_drive(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(slow)
        record = await worker(client).drive(run.id, budget=0.2)
        assert (record.done, record.reason) == (False, "budget")
        assert not (await run.refresh()).status.is_final


async def test_without_a_run_everything_due_is_driven(database_url):
    async with AsyncClient(database_url) as client:
        runs = await client.start_many(once, [()] * 5)
        record = await worker(client).drive()
        assert (record.reason, record.taken) == ("waiting", 5)
        assert [await run.result(timeout=0) for run in runs] == [3] * 5


async def test_a_run_that_waits_for_one_whose_last_step_is_a_transaction_is_driven_to_its_end(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(awaiting)
        await Worker(client, workflows=[awaiting, keeping]).drive()
        assert (await client.get_run(run.id)).status == "completed"


async def test_an_event_that_was_published_in_between_is_taken_by_the_next_drive(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(noticed)
        assert (await worker(client).drive(run.id)).reason == "waiting"
        await client.publish("news", "good")
        assert (await worker(client).drive(run.id)).done
        assert await run.result(timeout=0) == "good"


async def test_a_drive_takes_over_from_one_that_was_killed(database_url):
    killed = (
        "import asyncio, sys; from tests.worker.test_driving import *; asyncio.run(killed_in_the_middle(sys.argv[1]))"
    )
    died = await asyncio.create_subprocess_exec(sys.executable, "-c", killed, database_url, cwd=ROOT, env=ENVIRONMENT)
    assert await died.wait() == 9
    async with AsyncClient(database_url) as client:
        run = await client.get_run(deadly, key="d")
        assert (await Worker(client, workflows=[deadly]).drive(run.id)).done
        assert await run.result(timeout=0) == "alive"


async def test_a_drive_of_whatever_is_due_sweeps_what_was_kept_long_enough(database_url):
    async with AsyncClient(database_url) as client:
        run = await client.start(once, retention=0)
        await worker(client).drive(run.id)
        await worker(client).drive()
        with pytest.raises(RunNotFound):
            await client.get_run(run.id)


async def test_two_drives_at_once_execute_each_step_once(database_url):
    executed = []

    @step
    async def effect() -> None:
        executed.append(1)
        await asyncio.sleep(0.05)

    @workflow
    async def body() -> None:
        await effect()

    async with AsyncClient(database_url) as client, AsyncClient(database_url) as other:
        run = await client.start(body)
        drives = [Worker(one, workflows=[body]).drive(run.id) for one in (client, other)]
        records = await asyncio.gather(*drives)
        assert any(record.done for record in records)
        assert executed == [1]


@workflow
async def told_soon() -> str:
    return str(await holdfast.wait_for_signal("go", timeout="9s", default="late"))


class Overtaken(SqliteStore):
    """A store in which somebody sends a signal as soon as a claim has found nothing: no word of it gets through."""

    def __init__(self, url: str) -> None:
        super().__init__(url.removeprefix("sqlite:///"), url, "default")
        self.waiting = ""

    async def claim_runs(self, *args: Any, **given: Any) -> list[ClaimedRun]:
        found = await super().claim_runs(*args, **given)
        if not found and self.waiting:
            run_id, self.waiting = self.waiting, ""
            await self.send_signal(run_id, "go", b'"in time"')
        return found

    def subscribe(self, callback: Callable[[], None], to: News = News.ANY) -> Callable[[], None]:
        return lambda: None


class Overdue(SkippingStore):
    """A store in which a timer rings as soon as a claim has found nothing, and the look before it fires takes long."""

    def __init__(self, url: str, clock: SkippingClock) -> None:
        super().__init__(url, clock)
        self.looks = -1
        self._skip = clock.skip

    async def claim_runs(self, *args: Any, **given: Any) -> list[ClaimedRun]:
        found = await super().claim_runs(*args, **given)
        if not found and self.looks < 0:
            self.looks = 0
            self._skip("10s")
            while not self.looks:
                await asyncio.sleep(0)
        return found

    async def read_inbox(self, worker_id: str, *, known: Sequence[int] = ()) -> list[Message]:
        if self.looks < 0:
            return await super().read_inbox(worker_id, known=known)
        self.looks += 1
        if self.looks == 1:
            for _ in range(20):
                await asyncio.sleep(0)
        return []

    def subscribe(self, callback: Callable[[], None], to: News = News.ANY) -> Callable[[], None]:
        return lambda: None


async def test_a_run_whose_timer_rings_during_the_last_claim_is_not_said_to_wait(database_url):
    clock = SkippingClock()
    store = Overdue(database_url, clock)
    async with AsyncClient(store) as client:
        run = await client.start(told_soon)
        record = await Worker(client, workflows=[told_soon], clock=clock).drive(run.id)
        assert (record.reason, record.status) == ("ended", "completed")
        assert await run.result(timeout=0) == "late"
    await store.close()


async def test_a_message_that_nobody_waits_for_does_not_keep_a_drive_busy(database_url):
    async with AsyncClient(database_url) as client:

        @step
        async def poke() -> None:
            await client.signal(holdfast.current_step().run_id, "go")

        @workflow
        async def deaf() -> None:
            await poke()
            await holdfast.sleep("9s")

        run = await client.start(deaf)
        assert (await Worker(client, workflows=[deaf]).drive(run.id)).reason == "waiting"


BUDGET = 0.05


class Slow(SqliteStore):
    """A store whose claims take as long as the budget, which began before them: they are answered when it is spent."""

    def __init__(self, url: str) -> None:
        super().__init__(url.removeprefix("sqlite:///"), url, "default")

    async def claim_runs(self, *args: Any, **given: Any) -> list[ClaimedRun]:
        found = await super().claim_runs(*args, **given)
        await asyncio.sleep(BUDGET)
        return found


async def test_a_budget_that_is_spent_during_a_claim_costs_no_crash(database_url):
    store = Slow(database_url)
    async with AsyncClient(store) as client:
        run = await client.start(once)
        assert (await worker(client).drive(run.id, budget=BUDGET)).reason == "budget"
        await worker(client).drive(run.id)
        assert [entry.kind for entry in await client.journal(run.id)].count("claimed") == 0
    await store.close()


async def test_a_message_that_came_during_the_last_claim_is_taken(database_url):
    store = Overtaken(database_url)
    async with AsyncClient(store) as client:
        run = await client.start(told_soon)
        store.waiting = run.id
        record = await Worker(client, workflows=[told_soon]).drive(run.id)
        assert (record.reason, record.status) == ("ended", "completed")
        assert await run.result(timeout=0) == "in time"
    await store.close()


class Lapsing(SkippingStore):
    """A store before whose first claim the lease lapses. It is renewed when nothing was claimed because of that."""

    def __init__(self, url: str, clock: Stalling) -> None:
        super().__init__(url, clock)
        self.looks = 0
        self._clock = clock
        self._renewals = 0

    def renew_lease(self, *args: Any, **given: Any) -> Any:
        answer = super().renew_lease(*args, **given)
        self._renewals += 1
        return answer

    async def read_unmatched(self, *args: Any, **given: Any) -> Any:
        self.looks += 1
        if self.looks == 1:
            self._clock.stalled += 31_000_000
        elif self.looks == 2:
            before = self._renewals
            await until(lambda: self._renewals > before)
        return await super().read_unmatched(*args, **given)


async def test_a_drive_whose_lease_lapsed_before_it_could_look_looks_again(database_url):
    clock = Stalling()
    store = Lapsing(database_url, clock)
    async with AsyncClient(store) as client:
        run = await client.start(once)
        record = await Worker(client, workflows=[once], clock=clock).drive()
        assert record.taken == 1
        assert await run.result(timeout=0) == 3
    await store.close()


class Reaped(SkippingStore):
    """A store in which somebody else ends the drive's lease, which has lapsed, before it looks for the first time."""

    def __init__(self, url: str, clock: Stalling) -> None:
        super().__init__(url, clock)
        self._clock = clock
        self._is_reaped = False

    async def read_unmatched(self, *args: Any, **given: Any) -> Any:
        if not self._is_reaped:
            self._is_reaped = True
            await self.reap_workers("somebody", now=self._clock.now() + LATER)
            self._clock.stalled += 31_000_000
        return await super().read_unmatched(*args, **given)


async def test_a_drive_that_has_lost_its_lease_says_so_and_keeps_no_lock(tmp_path):
    clock = Stalling()
    store = Reaped(f"sqlite:///{tmp_path}/holdfast.db", clock)
    async with AsyncClient(store) as client:
        await client.start(once)
        with pytest.raises(LeaseLost, match="drive again"):
            await Worker(client, workflows=[once], clock=clock).drive()
        assert not [*tmp_path.glob("**/*.lock")]
    await store.close()


def test_drives_at_once_may_be_made_in_another_loop_each_time(database_url):
    worker = Worker(database_url, workflows=[once])

    async def drives() -> int:
        async with AsyncClient(database_url) as client:
            await client.start(once)
        return sum(driven.taken for driven in await asyncio.gather(worker.drive(), worker.drive()))

    assert [asyncio.run(drives()), asyncio.run(drives())] == [1, 1]
