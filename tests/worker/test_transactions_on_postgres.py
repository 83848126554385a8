"""Transactional steps on Postgres: what they write to the store's own database and their results are one commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

import holdfast
from holdfast import AsyncClient, FatalError, RunFailed, StepTimeout, Worker, step, workflow
from holdfast.model import Blocked, Out, RunStatus, Turn
from tests.servers import Databases, PgBouncer, execute, fetch
from tests.worker.stage import ONCE, QUICK, until


@pytest.fixture
def database(postgres: Databases) -> str:
    """A Postgres database with a table of the user's."""
    url = postgres.create_database()
    bookings = "CREATE TABLE bookings (id text PRIMARY KEY)"
    entries = (
        "CREATE TABLE entries (id text PRIMARY KEY, booking text REFERENCES bookings DEFERRABLE INITIALLY DEFERRED)"
    )
    asyncio.run(execute(url, bookings, entries))
    return url


async def rows(url: str) -> list[str]:
    return [row[0] for row in await fetch(url, "SELECT id FROM bookings ORDER BY id")]


@asynccontextmanager
async def served(url: str, *workflows: Any, **options: Any) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(url) as client, Worker(client, workflows=workflows, **options):
        yield client


@step(transaction=True, retry=QUICK)
async def insert(db: asyncpg.Connection, name: str) -> int:
    await db.execute("INSERT INTO bookings (id) VALUES ($1)", name)
    return int(await db.fetchval("SELECT count(*) FROM bookings"))


@workflow
async def inserting(name: str) -> list[int]:
    first = await insert(name)
    return [first, await insert(name + "-2")]


async def test_the_writes_and_the_result_of_a_transaction_are_committed_together(database):
    async with served(database, inserting) as client:
        run = await client.start(inserting, "a")
        assert await run.result(timeout=60) == [1, 2]
        assert await rows(database) == ["a", "a-2"]
        assert len(await client.store.read_journal(run.id)) == 2


async def test_the_turn_of_a_transaction_sends_its_values_and_children_with_the_commit(database):
    @workflow
    async def child(name: str) -> str:
        return name

    @workflow
    async def parent(name: str) -> str:
        await insert(name)
        holdfast.set_value("booked", name)
        return await child(name)

    async with served(database, parent, child) as client:
        run = await client.start(parent, "a")
        assert await run.result(timeout=60) == "a"
        assert await run.value("booked") == "a"


async def test_a_run_that_continues_as_new_after_a_transaction_goes_on_in_its_successor(database):
    @workflow
    async def order(left: int) -> int:
        found = await insert(f"n{left}")
        if left:
            order.continue_as_new(left - 1)
        return found

    async with served(database, order) as client:
        run = await client.start(order, 1)
        assert await run.result(timeout=60) == 2


async def test_a_transactional_step_works_behind_a_pooler_that_shares_sessions(database):
    with PgBouncer(database, pool_size=3) as pooler:
        async with served(f"{pooler.url_for(database)}?pooler=transaction", inserting) as client:
            runs = await client.start_many(inserting, [(f"r{number}",) for number in range(10)])
            for run in runs:
                await run.result(timeout=60)
    assert len(await rows(database)) == 20


async def test_many_runs_share_few_connections(database):
    async with served(database, inserting) as client:
        runs = await client.start_many(inserting, [(f"r{number}",) for number in range(30)])
        for run in runs:
            await run.result(timeout=60)
        assert len(await rows(database)) == 60


async def test_a_failed_attempt_of_a_transaction_leaves_nothing_written(database):
    tries = []

    @step(transaction=True, retry=QUICK)
    async def flaky(db: asyncpg.Connection) -> None:
        tries.append(await db.fetchval("SELECT count(*) FROM bookings"))
        await db.execute("INSERT INTO bookings (id) VALUES ('a')")
        if len(tries) < 3:
            raise ValueError("no")

    @workflow
    async def order() -> None:
        await flaky()

    async with served(database, order) as client:
        await (await client.start(order)).result(timeout=60)
        assert (tries, await rows(database)) == ([0, 0, 0], ["a"])


async def test_a_deferred_constraint_that_fails_at_the_commit_fails_the_step(database):
    @step(transaction=True, retry=ONCE)
    async def orphan(db: asyncpg.Connection) -> None:
        await db.execute("INSERT INTO entries (id, booking) VALUES ('a', 'nothing')")

    @workflow
    async def order() -> str:
        try:
            await orphan()
        except asyncpg.ForeignKeyViolationError:
            return "refused"
        return "accepted"

    async with served(database, order) as client:
        assert await (await client.start(order)).result(timeout=60) == "refused"


async def test_an_error_that_was_swallowed_is_not_committed_over(database):
    @step(transaction=True, retry=ONCE)
    async def careless(db: asyncpg.Connection) -> None:
        await db.execute("INSERT INTO bookings (id) VALUES ('a')")
        try:
            await db.execute("INSERT INTO bookings (id) VALUES ('a')")
        except asyncpg.UniqueViolationError:
            pass

    @workflow
    async def order() -> None:
        await careless()

    async with served(database, order) as client:
        with pytest.raises(RunFailed):
            await (await client.start(order)).result(timeout=60)
        assert await rows(database) == []


@pytest.mark.parametrize("how", ["COMMIT", "ROLLBACK", "COMMIT; BEGIN"])
async def test_a_transactional_step_must_not_end_its_transaction(database, how):
    @step(transaction=True, retry=QUICK)
    async def greedy(db: asyncpg.Connection) -> None:
        await db.execute(how)

    @workflow
    async def order() -> None:
        await greedy()

    async with served(database, order) as client:
        with pytest.raises(RunFailed) as failed:
            await (await client.start(order)).result(timeout=60)
        assert isinstance(failed.value.__cause__, FatalError)
        assert "greedy" in str(failed.value.__cause__)


async def test_a_nested_transaction_is_a_savepoint(database):
    @step(transaction=True, retry=ONCE)
    async def careful(db: asyncpg.Connection) -> None:
        await db.execute("INSERT INTO bookings (id) VALUES ('a')")
        try:
            async with db.transaction():
                await db.execute("INSERT INTO bookings (id) VALUES ('b')")
                raise ValueError
        except ValueError:
            pass

    @workflow
    async def order() -> None:
        await careful()

    async with served(database, order) as client:
        await (await client.start(order)).result(timeout=60)
        assert await rows(database) == ["a"]


async def test_a_transaction_past_its_timeout_is_rolled_back(database):
    @step(transaction=True, retry=ONCE, timeout=0.3)
    async def slow(db: asyncpg.Connection) -> None:
        await db.execute("INSERT INTO bookings (id) VALUES ('a')")
        await asyncio.sleep(30)

    @workflow
    async def order() -> None:
        await slow()

    async with served(database, order) as client:
        with pytest.raises(RunFailed) as failed:
            await (await client.start(order)).result(timeout=60)
        assert isinstance(failed.value.__cause__, StepTimeout)
        assert await rows(database) == []


async def test_a_cancelled_run_rolls_its_step_back(database):
    begun = asyncio.Event()

    @step(transaction=True, retry=ONCE)
    async def slow(db: asyncpg.Connection) -> None:
        await db.execute("INSERT INTO bookings (id) VALUES ('a')")
        begun.set()
        await asyncio.sleep(30)

    @workflow
    async def order() -> None:
        await slow()

    async with served(database, order) as client:
        run = await client.start(order)
        await begun.wait()
        await run.cancel()
        assert await run.wait(timeout=60) is RunStatus.CANCELLED
        assert await rows(database) == []


async def test_results_that_come_during_a_transaction_are_committed_during_it(database):
    others = asyncio.Event()

    @step
    async def other() -> int:
        return 1

    @step
    async def after(value: int) -> int:
        others.set()
        return value + 1

    @step(transaction=True, retry=ONCE)
    async def booking(db: asyncpg.Connection) -> int:
        await db.execute("INSERT INTO bookings (id) VALUES ('a')")
        await asyncio.wait_for(others.wait(), 60)
        return 10

    @workflow
    async def order() -> list[int]:
        async def beside() -> int:
            return await after(await other())

        return list(await asyncio.gather(booking(), beside()))

    async with served(database, order) as client:
        assert await (await client.start(order)).result(timeout=60) == [10, 2]


@pytest.mark.parametrize("is_resumed_first", [False, True])
async def test_a_transaction_that_ends_in_a_pause_is_recorded_while_other_steps_go_on(database, is_resumed_first):
    begun, booked, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    executed: list[str] = []
    told: list[int] = []

    @step
    async def other() -> int:
        await may_end.wait()
        return 1

    @step(transaction=True, retry=ONCE)
    async def booking(db: asyncpg.Connection) -> int:
        executed.append("booking")
        await db.execute("INSERT INTO bookings (id) VALUES ('a')")
        begun.set()
        await booked.wait()
        return 10

    async def taken_in() -> int:
        result = await booking()
        told.append(result)
        return result

    @workflow
    async def order() -> list[int]:
        return list(await asyncio.gather(other(), taken_in()))

    async with AsyncClient(database) as client, Worker(client, workflows=[order]) as worker:
        run = await client.start(order)
        await begun.wait()
        await client.pause(run.id)
        held = worker._session.runs.held[run.id]
        await until(lambda: held.is_pausing)
        booked.set()

        async def is_recorded() -> bool:
            return any(entry.kind == "step_completed" for entry in await client.journal(run.id))

        await until(is_recorded)
        assert await rows(database) == ["a"]
        if is_resumed_first:
            await client.resume(run.id)
            await until(lambda: not held.is_pausing)
        may_end.set()
        if not is_resumed_first:
            await until(lambda: not worker._session.runs.held)
            # The result is in the journal, and the body gets it on resume.
            assert told == []
            await client.resume(run.id)
        assert await run.result(timeout=60) == [1, 10]
        assert (await rows(database), executed) == (["a"], ["booking"])
        kept = [one.entry.results for one in await client.journal(run.id) if isinstance(one.entry, Blocked)]
        assert kept == ([1] if is_resumed_first else [1, 1])


async def test_a_commit_whose_answer_is_lost_is_settled_by_the_journal(database, monkeypatch):
    lost = []
    original = asyncpg.transaction.Transaction.commit

    async def commit(self):
        is_first = not lost
        if is_first:
            lost.append(True)
        await original(self)
        if is_first:
            raise ConnectionResetError("on purpose")

    monkeypatch.setattr(asyncpg.transaction.Transaction, "commit", commit)
    async with served(database, inserting) as client:
        assert await (await client.start(inserting, "a")).result(timeout=60) == [1, 2]
        assert await rows(database) == ["a", "a-2"]


@pytest.mark.parametrize(("epoch", "is_accepted"), [(1, True), (2, False)])
async def test_a_commit_whose_answer_is_lost_is_settled_by_the_checkpoint_that_cut_its_place_off(
    database, monkeypatch, epoch, is_accepted
):
    """Only a worker that heard of the acceptance goes on to a checkpoint with its own epoch."""
    original = asyncpg.transaction.Transaction.commit
    async with AsyncClient(database) as client:
        run = await client.start(inserting, "a")
        cut = Turn(run_id=run.id, seq=1, epoch=epoch, at=0, data=b"[]", out=Out(truncate=True))

        async def commit(self):
            monkeypatch.undo()
            await original(self)
            assert await client.store.commit_turns([cut]) == [True]
            raise ConnectionResetError("on purpose")

        lender = client.store.lender(30_000_000)
        loan = lender.lend()
        await loan.begin()
        monkeypatch.setattr(asyncpg.transaction.Transaction, "commit", commit)
        assert await loan.commit(Turn(run_id=run.id, seq=0, epoch=1, at=0, data=b"[]"), now=None) is is_accepted
        await loan.end()
        lender.close()


async def test_a_connection_that_breaks_before_the_commit_executes_the_step_again(database, monkeypatch):
    lost = []
    original = asyncpg.transaction.Transaction.commit

    async def commit(self):
        if not lost:
            lost.append(True)
            self._connection.terminate()
            raise ConnectionResetError("on purpose")
        await original(self)

    monkeypatch.setattr(asyncpg.transaction.Transaction, "commit", commit)
    async with served(database, inserting) as client:
        assert await (await client.start(inserting, "a")).result(timeout=60) == [1, 2]
        assert await rows(database) == ["a", "a-2"]


async def test_a_turn_whose_place_in_the_journal_is_taken_rolls_back_the_writes(database):
    async with AsyncClient(database) as client:
        run = await client.start(inserting, "a")
        lender = client.store.lender(30_000_000)
        assert await client.store.commit_turns([Turn(run_id=run.id, seq=0, epoch=1, at=0, data=b"[]")]) == [True]
        for epoch in (1, 2):
            loan = lender.lend()
            await loan.begin()
            await loan.connection.execute("INSERT INTO bookings (id) VALUES ('a')")
            assert await loan.commit(Turn(run_id=run.id, seq=0, epoch=epoch, at=0, data=b"[]"), now=None) is False
            await loan.end()
        lender.close()
        assert await rows(database) == []
