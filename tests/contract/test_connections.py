"""Starting runs inside a transaction of the caller's own, by every driver that callers may have."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from holdfast import AsyncClient, Client, DefinitionError, StoreError, StoreTooNew, workflow
from holdfast.model import RunFilter
from tests.contract import ways


@workflow
async def ship(order: int, note: str | None = None) -> int:
    return order


def count(client: Client) -> int:
    return len(list(client.runs(RunFilter(workflow=ship))))


def cut_off(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
    """The connection is gone just before a run is created."""
    if "INSERT INTO holdfast.starts" in statement:
        raise ConnectionError


class TestBlocking:
    def test_a_run_is_there_when_the_caller_has_committed_and_not_before(self, blocking):
        url, way = blocking
        with Client(url) as client:
            seen = []

            def inside(connection: Any) -> None:
                started = client.start(ship, 1, "50% off", key="order-1", connection=connection)
                seen.append((started.created, started.key, count(client)))

            way(url, inside, True)
            assert seen == [(True, "order-1", 0)]
            assert (count(client), ways.orders(url)) == (1, 1)
            assert client.get_run(ship, key="order-1").record.tags == {}

    def test_nothing_remains_if_the_caller_rolls_back(self, blocking):
        url, way = blocking
        with Client(url) as client:
            way(url, lambda connection: client.start(ship, 1, key="order-1", connection=connection), False)
            assert (count(client), ways.orders(url), client.workflows()) == (0, 0, [])
            # And nothing was remembered of what was undone.
            way(url, lambda connection: client.start(ship, 1, key="order-1", connection=connection), True)
            assert client.get_run(ship, key="order-1").record.status == "pending"

    def test_start_many_writes_through_the_caller_s_connection(self, blocking):
        url, way = blocking
        with Client(url) as client:
            way(
                url,
                lambda connection: client.start_many(ship, [(1,), (2, "%")], tags={"a": "b"}, connection=connection),
                True,
            )
            assert [run.record.tags for run in client.runs()] == [{"a": "b"}] * 2

    def test_a_key_that_is_held_is_settled_inside_the_transaction(self, blocking):
        url, way = blocking
        with Client(url) as client:
            first = client.start(ship, 1, key="order-1")
            found = []

            def inside(connection: Any) -> None:
                found.append(client.start(ship, 2, key="order-1", connection=connection))
                found.append(client.start(ship, 3, key="order-1", on_conflict="replace", connection=connection))

            way(url, inside, True)
            assert [(run.created, run.id == first.id) for run in found] == [(False, True), (True, False)]
            assert client.get_run(ship, key="order-1").id == found[1].id
            assert first.refresh().status == "cancelled"

    def test_statements_run_on_the_callers_own_thread(self, sqlite_url):
        # sqlite3 refuses connections in any other thread, and says so.
        ids = set()
        with Client(sqlite_url) as client:

            def work() -> None:
                ways.plain_sqlite(
                    sqlite_url, lambda connection: ids.add(client.start(ship, 1, connection=connection).id), True
                )

            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            assert {run.id for run in client.runs()} == ids

    def test_a_connection_in_no_transaction_that_commits_by_itself_starts_at_once(self, sqlite_url, postgres_url):
        connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
        with Client(sqlite_url) as client:
            client.start(ship, 1, connection=connection)
            assert (count(client), connection.in_transaction) == (1, False)
        connection.close()
        with Client(postgres_url) as client, psycopg.connect(postgres_url, autocommit=True) as connection:
            client.start(ship, 1, connection=connection)
            assert count(client) == 1

    def test_a_connection_whose_commit_fails_is_left_without_an_open_transaction(self, sqlite_url):
        path = sqlite_url.removeprefix("sqlite:///")
        with Client(sqlite_url) as client, closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("CREATE TABLE owed (run INTEGER REFERENCES runs (number) DEFERRABLE INITIALLY DEFERRED)")
            connection.execute("CREATE TRIGGER owing AFTER INSERT ON runs BEGIN INSERT INTO owed VALUES (-1); END")
            with pytest.raises(sqlite3.IntegrityError):
                client.start(ship, 1, connection=connection)
            assert not connection.in_transaction
            connection.execute("DROP TRIGGER owing")
            assert client.start(ship, 2, connection=connection).created

    def test_an_autocommitting_sqlalchemy_connection_takes_a_key_over_whole_or_not_at_all(self, postgres_url):
        engine = create_engine(ways.alchemy_url(postgres_url, "psycopg"), isolation_level="AUTOCOMMIT")
        with Client(postgres_url) as client, engine.connect() as connection:
            first = client.start(ship, 1, key="order-1")
            event.listen(engine, "before_cursor_execute", cut_off)
            with pytest.raises(ConnectionError):
                client.start(ship, 2, key="order-1", on_conflict="replace", connection=connection)
            event.remove(engine, "before_cursor_execute", cut_off)
            assert (client.get_run(ship, key="order-1").id, first.refresh().status) == (first.id, "pending")
            client.start(ship, 2, key="order-1", on_conflict="replace", connection=connection)
            assert first.refresh().status == "cancelled"
        engine.dispose()

    @pytest.mark.parametrize("option", [{"stream_results": True}, {"yield_per": 10}])
    def test_a_sqlalchemy_connection_that_streams_its_results_serves_as_any_other(self, postgres_url, option):
        engine = create_engine(ways.alchemy_url(postgres_url, "psycopg"))
        with Client(postgres_url) as client, engine.connect().execution_options(**option) as connection:
            run = client.start(ship, 1, key="order-1", connection=connection)
            client.signal(run.id, "paid", connection=connection)
            connection.commit()
            assert count(client) == 1
        engine.dispose()

    def test_a_wrong_start_by_name_raises_as_without_a_connection(self, sqlite_url):
        connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
        with Client(sqlite_url) as client, pytest.raises(Exception, match="no worker has ever registered"):
            client.start("nothing", 1, connection=connection)
        connection.close()


class TestAsync:
    async def test_a_run_is_there_when_the_caller_has_committed_and_not_before(self, awaited):
        url, way = awaited
        async with AsyncClient(url) as client:

            async def inside(connection: Any) -> None:
                run = await client.start(ship, 1, "50% off", key="order-1", connection=connection)
                assert run.created
                assert [run async for run in client.runs()] == []

            await way(url, inside, True)
            assert (await client.get_run(ship, key="order-1")).status == "pending"
            assert ways.orders(url) == 1

    async def test_nothing_remains_if_the_caller_rolls_back(self, awaited):
        url, way = awaited
        async with AsyncClient(url) as client:
            await way(url, lambda connection: client.start(ship, 1, key="a", connection=connection), False)
            assert ([run async for run in client.runs()], ways.orders(url)) == ([], 0)
            await way(url, lambda connection: client.start_many(ship, [(1,), (2,)], connection=connection), True)
            assert len([run async for run in client.runs()]) == 2

    async def test_a_blocking_connection_is_used_where_it_is(self, sqlite_url, postgres_url):
        for url, connection in (
            (sqlite_url, sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))),
            (postgres_url, psycopg.connect(postgres_url)),
        ):
            async with AsyncClient(url) as client:
                run = await client.start(ship, 1, connection=connection)
                connection.commit()
                assert (await run.refresh()).status == "pending"
            connection.close()

    async def test_a_connection_of_asyncpg_in_no_transaction_starts_at_once(self, postgres_url):
        connection = await asyncpg.connect(postgres_url)
        async with AsyncClient(postgres_url) as client:
            run = await client.start(ship, 1, connection=connection)
            assert (await run.refresh()).status == "pending"
        await connection.close()

    @pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
    async def test_an_autocommitting_sqlalchemy_connection_takes_a_key_over_whole_or_not_at_all(
        self, postgres_url, driver
    ):
        engine = create_async_engine(ways.alchemy_url(postgres_url, driver), isolation_level="AUTOCOMMIT")
        async with AsyncClient(postgres_url) as client, AsyncSession(engine) as session:
            first = await client.start(ship, 1, key="order-1")
            event.listen(engine.sync_engine, "before_cursor_execute", cut_off)
            with pytest.raises(ConnectionError):
                await client.start(ship, 2, key="order-1", on_conflict="replace", connection=session)
            event.remove(engine.sync_engine, "before_cursor_execute", cut_off)
            assert (await first.refresh()).status == "pending"
            second = await client.start(ship, 2, key="order-1", on_conflict="replace", connection=session)
            assert (await client.get_run(ship, key="order-1")).id == second.id
        await engine.dispose()

    @pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
    @pytest.mark.parametrize("option", [{"stream_results": True}, {"yield_per": 10}])
    async def test_a_sqlalchemy_connection_that_streams_its_results_serves_as_any_other(
        self, postgres_url, driver, option
    ):
        engine = create_async_engine(ways.alchemy_url(postgres_url, driver), execution_options=option)
        async with AsyncClient(postgres_url) as client, AsyncSession(engine) as session:
            run = await client.start(ship, 1, key="order-1", connection=session)
            await client.signal(run.id, "paid", connection=session)
            await session.commit()
            assert (await run.refresh()).status == "pending"
        await engine.dispose()

    async def test_other_clients_hear_of_the_commit(self, postgres_url):
        async with AsyncClient(postgres_url) as other, AsyncClient(postgres_url) as client:
            heard = asyncio.Event()
            other.store.subscribe(heard.set)
            # Listening begins with a wake-up of its own.
            assert await ways.is_heard(heard)
            heard.clear()
            await ways.plain_asyncpg(
                postgres_url, lambda connection: client.start(ship, 1, connection=connection), True
            )
            assert await ways.is_heard(heard)


class TestRefusals:
    def test_a_connection_to_another_database_is_refused(self, postgres, postgres_url, sqlite_url, tmp_path):
        other = postgres.create_database()
        refused = pytest.raises(DefinitionError, match="not one to this client's database")
        with Client(other), Client(postgres_url) as client, psycopg.connect(other) as connection, refused:
            client.start(ship, 1, connection=connection)
        connection = sqlite3.connect(tmp_path / "another.db")
        with Client(sqlite_url) as client, pytest.raises(DefinitionError, match="not one to this client's database"):
            client.start(ship, 1, connection=connection)
        connection.close()

    def test_a_connection_to_a_database_without_holdfasts_tables_is_refused_and_stays_usable(
        self, postgres, postgres_url
    ):
        with Client(postgres_url) as client, psycopg.connect(postgres.create_database()) as connection:
            with pytest.raises(DefinitionError, match="not one to this client's database"):
                client.start(ship, 1, connection=connection)
            assert connection.execute("SELECT 1").fetchone() == (1,)

    def test_a_connection_to_another_kind_of_database_is_refused(self, postgres_url, sqlite_url):
        connection = sqlite3.connect(":memory:")
        with Client(postgres_url) as client, pytest.raises(DefinitionError, match="Postgres store; expected"):
            client.start(ship, 1, connection=connection)
        connection.close()
        engine = create_engine("sqlite://")
        refused = pytest.raises(DefinitionError, match="sqlite\\+pysqlite, and this store is in Postgres")
        with Client(postgres_url) as client, engine.connect() as connection, refused:
            client.start(ship, 1, connection=connection)
        engine.dispose()
        refused = pytest.raises(DefinitionError, match="SQLite store; expected")
        with Client(sqlite_url) as client, psycopg.connect(postgres_url) as connection, refused:
            client.start(ship, 1, connection=connection)

    def test_an_object_that_is_no_connection_is_refused(self, postgres_url, sqlite_url):
        engine = create_engine("sqlite://")
        for url in (postgres_url, sqlite_url):
            with Client(url) as client:
                for thing in ("dsn", 1, object(), engine):
                    with pytest.raises(DefinitionError, match="connection="):
                        client.start(ship, 1, connection=thing)

    async def test_a_pool_is_refused_as_a_connection(self, postgres_url):
        async with asyncpg.create_pool(postgres_url, min_size=1) as pool, AsyncClient(postgres_url) as client:
            with pytest.raises(DefinitionError, match="expected a connection of asyncpg"):
                await client.start(ship, 1, connection=pool)

    async def test_a_blocking_client_refuses_a_connection_that_has_to_be_awaited(self, postgres_url):
        connection = await asyncpg.connect(postgres_url)
        with Client(postgres_url) as client, pytest.raises(DefinitionError, match="use AsyncClient"):
            client.start(ship, 1, connection=connection)
        await connection.close()

    def test_a_file_without_tables_says_what_to_do(self, database_url):
        connection = sqlite3.connect(database_url.removeprefix("sqlite:///"))
        connection.execute("CREATE TABLE orders (id integer)")
        connection.execute(ways.INSERT)
        client = Client(database_url)
        with pytest.raises(StoreError, match="open the client before"):
            client.start(ship, 1, connection=connection)
        connection.close()

    @pytest.mark.parametrize("url", ["sqlite_url", "postgres_url"])
    def test_a_newer_schema_that_old_clients_can_live_with_is_accepted(self, request, url):
        url = request.getfixturevalue(url)
        way, schema = (ways.plain_sqlite, "") if url.startswith("sqlite") else (ways.plain_psycopg, "holdfast.")
        insert = f"INSERT INTO {schema}migrations (number, applied_at) VALUES (999, 0)"
        with Client(url) as client:
            client.workflows()
            way(url, lambda connection: connection.execute(insert), True)
            way(url, lambda connection: client.start(ship, 1, connection=connection), True)
            assert count(client) == 1

    def test_a_newer_schema_that_old_workers_can_not_live_with_is_refused(self, sqlite_url):
        insert = "INSERT INTO migrations (number, applied_at) VALUES (1001, 0)"
        client = Client(sqlite_url)
        ways.plain_sqlite(sqlite_url, lambda connection: connection.execute(insert), True)
        with pytest.raises(StoreTooNew, match="1001"):
            ways.plain_sqlite(sqlite_url, lambda connection: client.start(ship, 1, connection=connection), True)

    def test_a_workflow_with_a_parameter_named_connection_is_refused_with_advice(self, sqlite_url):
        @workflow
        def linked(connection: str) -> None: ...

        refused = pytest.raises(TypeError, match="rename the parameter")
        with Client(sqlite_url) as client, closing(sqlite3.connect(":memory:")) as connection, refused:
            client.start(linked, "a", connection=connection)


class TestOpenTransactions:
    async def test_a_start_with_a_key_that_an_open_transaction_holds_waits_for_it_alone(self, postgres_url):
        async with AsyncClient(postgres_url) as client:
            connection = await asyncpg.connect(postgres_url)
            holding = connection.transaction()
            await holding.start()
            first = await client.start(ship, 1, key="a", connection=connection)
            waiting = [asyncio.create_task(client.start(ship, 2, key="a")) for _ in range(5)]
            others = [client.start(ship, number, key=f"b{number}") for number in range(20)]
            started = await asyncio.gather(*others, client.start(ship, 5), client.start_many(ship, [(6,), (7,)]))
            assert all(run.created for run in started[:21])
            # Not held up any more: the key is known to be stuck.
            assert (await client.start(ship, 3, key="c")).created
            assert [task.done() for task in waiting] == [False] * 5
            await holding.commit()
            assert [(run.id, run.created) for run in await asyncio.gather(*waiting)] == [(first.id, False)] * 5
            await connection.close()

    async def test_a_start_that_is_rolled_back_leaves_its_key_to_the_next(self, postgres_url):
        async with AsyncClient(postgres_url) as client:
            connection = await asyncpg.connect(postgres_url)
            holding = connection.transaction()
            await holding.start()
            await client.start(ship, 1, key="a", connection=connection)
            waiting = asyncio.create_task(client.start(ship, 2, key="a", on_conflict="restart"))
            await client.start(ship, 3)
            await holding.rollback()
            assert (await waiting).created
            await connection.close()
