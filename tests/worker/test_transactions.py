"""Transactional steps: what they write to the store's own database and their results are one commit."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

import holdfast
from holdfast import AsyncClient, DefinitionError, FatalError, Retry, RunFailed, StepTimeout, Worker, step, workflow
from holdfast.model import RunStatus, Turn
from holdfast.store import Undone
from holdfast.testing import Environment, assert_durable
from tests.servers import Databases, PgBouncer
from tests.worker.stage import stage, until

ONCE = Retry(attempts=1)
QUICK = Retry(attempts=3, initial=0.01, max=0.01, jitter=0)


# -- SQLite --------------------------------------------------------------------------------------------------------


@step(transaction=True, retry=QUICK)
def book(db: sqlite3.Connection, order: str) -> int:
    db.execute("INSERT INTO bookings (id) VALUES (?)", (order,))
    return int(db.execute("SELECT count(*) FROM bookings").fetchone()[0])


@pytest.fixture
def file(database_url: str) -> str:
    """A SQLite file with a table of the user's."""
    connection = sqlite3.connect(database_url.removeprefix("sqlite:///"))
    connection.execute("CREATE TABLE bookings (id TEXT PRIMARY KEY)")
    connection.close()
    return database_url


def booked(url: str) -> list[str]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    try:
        return [row[0] for row in connection.execute("SELECT id FROM bookings ORDER BY id")]
    finally:
        connection.close()


class TestOnSqlite:
    async def test_writes_and_result_are_there_together(self, file):
        @workflow
        async def order(name: str) -> list[int]:
            first = book(name)
            return [first, book(name + "-2")]

        async with stage(file, order) as s:
            run = await s.client.start(order, "a")
            assert await run.result() == [1, 2]
            assert booked(file) == ["a", "a-2"]
            # Two steps are two turns, as they are without transactions.
            assert len(await s.store.read_journal(run.id)) == 2

    async def test_a_def_body_calls_it_too(self, file):
        @workflow
        def order(name: str) -> int:
            return book(name)

        async with stage(file, order) as s:
            assert await (await s.client.start(order, "a")).result() == 1

    async def test_a_failed_attempt_leaves_nothing(self, file):
        tries = []

        @step(transaction=True, retry=QUICK)
        def flaky(db: sqlite3.Connection) -> None:
            tries.append(db.execute("SELECT count(*) FROM bookings").fetchone()[0])
            db.execute("INSERT INTO bookings (id) VALUES ('a')")
            if len(tries) < 3:
                raise ValueError("no")

        @workflow
        async def order() -> None:
            flaky()

        async with stage(file, order) as s:
            run = await s.client.start(order)
            await run.result()
            assert (tries, booked(file)) == ([0, 0, 0], ["a"])
            assert (await s.kinds(run)).count("step_retrying") == 2

    async def test_a_result_that_cannot_be_stored_takes_the_writes_with_it(self, file):
        @step(transaction=True, retry=QUICK)
        def odd(db: sqlite3.Connection) -> Any:
            db.execute("INSERT INTO bookings (id) VALUES ('a')")
            return object()

        @workflow
        async def order() -> None:
            odd()

        async with stage(file, order) as s:
            with pytest.raises(RunFailed):
                await (await s.client.start(order)).result()
            assert booked(file) == []

    @pytest.mark.parametrize("how", ["commit", "with", "sql", "rollback", "script", "swallowed"])
    async def test_it_must_not_end_the_transaction_by_itself(self, file, how):
        @step(transaction=True, retry=QUICK)
        def greedy(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO bookings (id) VALUES ('a')")
            if how == "commit":
                db.commit()
            elif how == "with":
                with db:
                    pass
            elif how == "sql":
                db.execute("COMMIT")
            elif how == "rollback":
                db.rollback()
            elif how == "script":
                db.executescript("INSERT INTO bookings (id) VALUES ('b');")
            else:
                try:
                    db.commit()
                except sqlite3.DatabaseError:
                    pass

        @workflow
        async def order() -> None:
            greedy()

        async with stage(file, order) as s:
            run = await s.client.start(order)
            with pytest.raises(RunFailed) as failed:
                await run.result()
            assert isinstance(failed.value.__cause__, FatalError)
            assert "greedy" in str(failed.value.__cause__)
            assert "commits it together with the step's result" in str(failed.value.__cause__)
            assert booked(file) == []

    async def test_a_savepoint_may_be_used(self, file):
        @step(transaction=True, retry=ONCE)
        def careful(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO bookings (id) VALUES ('a')")
            db.execute("SAVEPOINT mine")
            db.execute("INSERT INTO bookings (id) VALUES ('b')")
            db.execute("ROLLBACK TO mine")
            db.execute("RELEASE mine")

        @workflow
        async def order() -> None:
            careful()

        async with stage(file, order) as s:
            await (await s.client.start(order)).result()
            assert booked(file) == ["a"]

    async def test_one_past_its_timeout_is_rolled_back_and_can_write_no_more(self, file):
        go_on, said = threading.Event(), []

        @step(transaction=True, retry=ONCE)
        def slow(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO bookings (id) VALUES ('a')")
            go_on.wait(30)
            try:
                db.execute("INSERT INTO bookings (id) VALUES ('b')")
            except sqlite3.Error as error:
                said.append(error)

        @workflow
        async def order() -> None:
            slow()

        async with stage(file, order) as s:
            run = await s.client.start(order)
            await until(lambda: _is_locked(file))
            # Five seconds are what it has on SQLite.
            s.skip("6s")
            with pytest.raises(RunFailed) as failed:
                await run.result()
            assert isinstance(failed.value.__cause__, StepTimeout)
            assert "5s" in str(failed.value.__cause__)
            go_on.set()
            await until(lambda: said)
            assert booked(file) == []

    async def test_results_that_come_meanwhile_wait_for_the_next_turn(self, file):
        begun = threading.Event()
        others = []

        @step
        async def other(number: int) -> int:
            await asyncio.to_thread(begun.wait, 10)
            others.append(number)
            return number

        @step(transaction=True, retry=ONCE)
        def booking(db: sqlite3.Connection) -> int:
            db.execute("INSERT INTO bookings (id) VALUES ('a')")
            begun.set()
            deadline = time.monotonic() + 10
            while len(others) < 3 and time.monotonic() < deadline:
                time.sleep(0.001)
            return 10

        @workflow
        async def order() -> list[int]:
            pending = [other.start(number) for number in range(3)]
            first = booking()
            return [first, *await asyncio.gather(*pending)]

        async with stage(file, order) as s:
            assert await (await s.client.start(order)).result(timeout=20) == [10, 0, 1, 2]
            assert booked(file) == ["a"]

    async def test_several_at_once_take_turns(self, file):
        @step(transaction=True, retry=ONCE)
        def one(db: sqlite3.Connection, name: str) -> str:
            db.execute("INSERT INTO bookings (id) VALUES (?)", (name,))
            return name

        @workflow
        async def order(name: str) -> list[str]:
            return await asyncio.gather(*[one.start(f"{name}{number}") for number in range(5)])

        async with stage(file, order) as s:
            runs = await s.client.start_many(order, [("a",), ("b",), ("c",)])
            assert [await run.result(timeout=30) for run in runs] == [[f"{n}{i}" for i in range(5)] for n in "abc"]
            assert len(booked(file)) == 15

    async def test_a_cancelled_run_rolls_its_step_back(self, file):
        go_on = threading.Event()

        @step(transaction=True, retry=ONCE)
        def slow(db: sqlite3.Connection) -> None:
            db.execute("INSERT INTO bookings (id) VALUES ('a')")
            go_on.wait(20)

        @workflow
        async def order() -> None:
            slow()

        async with stage(file, order) as s:
            run = await s.client.start(order)
            await until(lambda: _is_locked(file))
            cancelling = asyncio.create_task(s.client.cancel(run.id))
            go_on.set()
            await cancelling
            assert await run.wait() in (RunStatus.CANCELLED, RunStatus.COMPLETED)
            assert booked(file) == (["a"] if run.status is RunStatus.COMPLETED else [])

    async def test_a_turn_whose_place_is_taken_takes_the_writes_with_it(self, file):
        @workflow
        async def order() -> int:
            return book("a")

        async with stage(file) as s:
            run = await s.client.start(order)
            await s.client._connection.opened()
            lender = s.store.lender(30_000_000)
            loan = lender.lend()
            await loan.begin()
            loan.connection.execute("INSERT INTO bookings (id) VALUES ('a')")
            await loan.end()
            turn = Turn(run_id=run.id, seq=0, epoch=1, at=0, data=b"[]")
            assert await s.store.commit_turns([turn]) == [True]
            for epoch in (1, 2):
                loan = lender.lend()
                await loan.begin()
                loan.connection.execute("INSERT INTO bookings (id) VALUES ('a')")
                assert await loan.commit(Turn(run_id=run.id, seq=0, epoch=epoch, at=0, data=b"[]"), now=None) is False
                await loan.end()
            assert booked(file) == []

    async def test_a_commit_that_did_not_happen_executes_the_step_again(self, file, monkeypatch):
        @workflow
        async def order() -> list[int]:
            first = book("a")
            return [first, book("b")]

        async with stage(file, order) as s:
            found = type(s.store.lender(1).lend())
            original, fates = found.commit, [Undone("on purpose"), Undone("nobody knows", is_certain=False)]

            async def commit(self, turn, *, now):
                return fates.pop() if fates else await original(self, turn, now=now)

            monkeypatch.setattr(found, "commit", commit)
            run = await s.client.start(order)

            async def is_over() -> bool:
                s.skip("1s")
                return (await s.record(run)).status.is_final

            await until(is_over)
            assert await run.result() == [1, 2]
            assert (fates, booked(file)) == ([], ["a", "b"])

    async def test_a_body_that_is_blocked_by_the_result_leaves_nothing_written(self, file):
        executed = []

        @step(transaction=True, retry=ONCE)
        def booking(db: sqlite3.Connection) -> None:
            executed.append(1)
            db.execute("INSERT INTO bookings (id) VALUES ('a')")

        @workflow
        async def order() -> None:
            booking()
            await asyncio.to_thread(print)

        async with stage(file, order) as s:
            run = await s.client.start(order)
            assert "IOInBody" in await s.until_blocked(run)
            # Its result could not be taken in, so neither is there: the step will execute again.
            assert (booked(file), "step_completed" in await s.kinds(run)) == ([], False)

    async def test_a_worker_that_stops_rolls_back_what_is_not_done(self, file):
        go_on = threading.Event()

        @step(transaction=True, retry=ONCE)
        def slow(db: sqlite3.Connection) -> str:
            db.execute("INSERT INTO bookings (id) VALUES ('a')")
            go_on.wait(20)
            return "done"

        @workflow
        async def order() -> str:
            return slow()

        async with stage(file) as s:
            run = await s.client.start(order)
            async with s.worker(order, grace=0):
                await until(lambda: _is_locked(file))
            assert booked(file) == []
            go_on.set()
            async with s.worker(order):
                assert await run.result(timeout=20) == "done"
            assert (booked(file), (await s.record(run)).crashes) == (["a"], 0)

    async def test_an_async_def_is_refused_when_the_worker_starts(self, file):
        @step(transaction=True)
        async def wrong(db: sqlite3.Connection) -> None: ...

        @workflow
        async def order() -> None:
            await wrong()

        with pytest.raises(DefinitionError, match=r"'wrong'.*gets a sqlite3.Connection.*must be `def`"):
            async with stage(file, order):
                pass

    async def test_runs_are_started_in_the_same_transaction(self, file):
        @workflow
        async def ship(name: str) -> str:
            return name

        @step(transaction=True, retry=QUICK)
        def hand_over(db: sqlite3.Connection, name: str) -> str:
            db.execute("INSERT INTO bookings (id) VALUES (?)", (name,))
            return blocking.start(ship, name, key=name, connection=db).id

        @workflow
        async def order(name: str) -> str:
            return hand_over(name)

        with holdfast.Client(file) as blocking:
            async with stage(file, order, ship) as s:
                child = await (await s.client.start(order, "a")).result()
                assert await (await s.client.get_run(child)).result() == "a"


def _is_locked(url: str) -> bool:
    """Whether somebody has the write lock."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
        return False
    except sqlite3.OperationalError:
        return True
    finally:
        connection.close()


# -- in memory -----------------------------------------------------------------------------------------------------


@step(transaction=True)
def note(db: sqlite3.Connection, text: str) -> int:
    db.execute("CREATE TABLE IF NOT EXISTS notes (text TEXT)")
    db.execute("INSERT INTO notes (text) VALUES (?)", (text,))
    return int(db.execute("SELECT count(*) FROM notes").fetchone()[0])


@workflow
async def noting(text: str) -> list[int]:
    first = note(text)
    await holdfast.sleep("1h")
    return [first, note(text)]


class TestInMemory:
    async def test_it_works_in_an_environment(self):
        async with Environment(workflows=[noting]) as env:
            run = await env.client.start(noting, "a")
            assert await run.result() == [1, 2]
            assert [call.args for call in env.calls(note)] == [("a",), ("a",)]

    async def test_it_can_be_stubbed(self):
        async with Environment(workflows=[noting], stubs={note: 7}) as env:
            assert await (await env.client.start(noting, "a")).result() == [7, 7]

    async def test_it_works_in_a_worker_of_its_own(self):
        @workflow
        async def quick(text: str) -> int:
            return note(text)

        async with AsyncClient("sqlite:///:memory:") as client, Worker(client, workflows=[quick]):
            runs = await client.start_many(quick, [("a",), ("b",)])
            assert sorted([await run.result(timeout=20) for run in runs]) == [1, 2]

    def test_crashes_before_and_after_its_commit_change_nothing(self):
        assert_durable(noting, "a")

    def test_its_commit_is_one_of_the_points_where_assert_durable_crashes(self):
        beside = []

        @step(transaction=True)
        def leaking(db: sqlite3.Connection) -> None:
            beside.append(1)

        @workflow
        async def leaks() -> None:
            leaking()

        with pytest.raises(AssertionError, match="turn 1: started, step_asked leaking, step_completed leaking"):
            assert_durable(leaks, effects=beside)

    def test_outside_a_run_it_is_the_function(self):
        connection = sqlite3.connect(":memory:")
        assert note.fn(connection, "a") == 1
        assert note(connection, "b") == 2
        connection.close()


# -- Postgres ------------------------------------------------------------------------------------------------------


@pytest.fixture
def database(postgres: Databases) -> str:
    """A Postgres database with a table of the user's."""
    url = postgres.create_database()

    async def prepare() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute("CREATE TABLE bookings (id text PRIMARY KEY)")
        await connection.execute(
            "CREATE TABLE entries (id text PRIMARY KEY, booking text REFERENCES bookings DEFERRABLE INITIALLY DEFERRED)"
        )
        await connection.close()

    asyncio.run(prepare())
    return url


async def rows(url: str) -> list[str]:
    connection = await asyncpg.connect(url)
    try:
        return [row[0] for row in await connection.fetch("SELECT id FROM bookings ORDER BY id")]
    finally:
        await connection.close()


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


class TestOnPostgres:
    async def test_writes_and_result_are_there_together(self, database):
        async with served(database, inserting) as client:
            run = await client.start(inserting, "a")
            assert await run.result(timeout=20) == [1, 2]
            assert await rows(database) == ["a", "a-2"]
            assert len(await client.store.read_journal(run.id)) == 2

    async def test_what_its_turn_gives_out_goes_out_with_it(self, database):
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
            assert await run.result(timeout=20) == "a"
            assert await run.value("booked") == "a"

    async def test_one_that_continues_goes_on_in_its_successor(self, database):
        @workflow
        async def order(left: int) -> int:
            found = await insert(f"n{left}")
            if left:
                order.continue_as_new(left - 1)
            return found

        async with served(database, order) as client:
            run = await client.start(order, 1)
            assert await run.result(timeout=20) == 2

    async def test_it_works_where_sessions_cannot_be_relied_on(self, database):
        with PgBouncer(database, pool_size=3) as pooler:
            async with served(f"{pooler.url_for(database)}?pooler=transaction", inserting) as client:
                runs = await client.start_many(inserting, [(f"r{number}",) for number in range(10)])
                for run in runs:
                    await run.result(timeout=30)
        assert len(await rows(database)) == 20

    async def test_many_runs_share_few_connections(self, database):
        async with served(database, inserting) as client:
            runs = await client.start_many(inserting, [(f"r{number}",) for number in range(30)])
            for run in runs:
                await run.result(timeout=30)
            assert len(await rows(database)) == 60

    async def test_a_failed_attempt_leaves_nothing(self, database):
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
            await (await client.start(order)).result(timeout=20)
            assert (tries, await rows(database)) == ([0, 0, 0], ["a"])

    async def test_what_is_deferred_to_the_commit_fails_the_step(self, database):
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
            assert await (await client.start(order)).result(timeout=20) == "refused"

    async def test_an_error_that_was_swallowed_is_not_committed_over(self, database):
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
                await (await client.start(order)).result(timeout=20)
            assert await rows(database) == []

    @pytest.mark.parametrize("how", ["COMMIT", "ROLLBACK", "COMMIT; BEGIN"])
    async def test_it_must_not_end_the_transaction_by_itself(self, database, how):
        @step(transaction=True, retry=QUICK)
        async def greedy(db: asyncpg.Connection) -> None:
            await db.execute(how)

        @workflow
        async def order() -> None:
            await greedy()

        async with served(database, order) as client:
            with pytest.raises(RunFailed) as failed:
                await (await client.start(order)).result(timeout=20)
            assert isinstance(failed.value.__cause__, FatalError)
            assert "greedy" in str(failed.value.__cause__)

    async def test_a_transaction_inside_is_a_savepoint(self, database):
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
            await (await client.start(order)).result(timeout=20)
            assert await rows(database) == ["a"]

    async def test_one_past_its_timeout_is_rolled_back(self, database):
        @step(transaction=True, retry=ONCE, timeout=0.3)
        async def slow(db: asyncpg.Connection) -> None:
            await db.execute("INSERT INTO bookings (id) VALUES ('a')")
            await asyncio.sleep(30)

        @workflow
        async def order() -> None:
            await slow()

        async with served(database, order) as client:
            with pytest.raises(RunFailed) as failed:
                await (await client.start(order)).result(timeout=20)
            assert isinstance(failed.value.__cause__, StepTimeout)
            assert await rows(database) == []

    async def test_a_cancelled_run_rolls_its_step_back(self, database):
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
            assert await run.wait(timeout=20) is RunStatus.CANCELLED
            assert await rows(database) == []

    async def test_results_that_come_meanwhile_are_committed_meanwhile(self, database):
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
            await asyncio.wait_for(others.wait(), 10)
            return 10

        @workflow
        async def order() -> list[int]:
            async def beside() -> int:
                return await after(await other())

            return list(await asyncio.gather(booking(), beside()))

        async with served(database, order) as client:
            assert await (await client.start(order)).result(timeout=20) == [10, 2]

    async def test_a_commit_whose_answer_is_lost_is_settled_by_the_journal(self, database, monkeypatch):
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
            assert await (await client.start(inserting, "a")).result(timeout=20) == [1, 2]
            assert await rows(database) == ["a", "a-2"]

    async def test_a_connection_that_breaks_before_the_commit_executes_the_step_again(self, database, monkeypatch):
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
            assert await (await client.start(inserting, "a")).result(timeout=20) == [1, 2]
            assert await rows(database) == ["a", "a-2"]

    async def test_a_turn_whose_place_is_taken_takes_the_writes_with_it(self, database):
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

    async def test_a_def_is_refused_when_the_worker_starts(self, database):
        @workflow
        async def order() -> None:
            note("a")

        with pytest.raises(DefinitionError, match=r"'note'.*gets an asyncpg.Connection.*must be `async def`"):
            async with served(database, order):
                pass


def test_a_function_without_parameters_is_refused_where_it_is_declared():
    with pytest.raises(DefinitionError, match="takes a connection first"):

        @step(transaction=True)
        def nothing() -> None: ...
