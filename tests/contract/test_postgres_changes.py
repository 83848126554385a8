"""A Postgres that somebody changes under a worker: who may log in, what takes connections, where the schema is.

At the start that is an error for whoever started it. Later it is an outage like any other: work waits, nobody dies.
"""

import asyncio
import contextlib
import logging
import uuid
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

import holdfast
from holdfast.errors import StoreAway, StoreError
from holdfast.store import open_store
from holdfast.store.postgres import connections, watcher
from holdfast.testing.contract.stage import LANE, LEASE, new_run, until
from tests.servers import execute, fetch
from tests.servers.wire import Wire

FAREWELL = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"


@pytest.fixture
def database(postgres):
    """A database, and a role of its own that works with it."""
    url = postgres.create_database()
    role = f"holdfast_{uuid.uuid4().hex[:8]}"
    name = urlsplit(url).path[1:]
    asyncio.run(execute(url, f"CREATE ROLE {role} LOGIN", f"GRANT ALL ON DATABASE {name} TO {role}"))
    parts = urlsplit(url)
    yield postgres.url, name, role, urlunsplit(parts._replace(netloc=f"{role}@{parts.hostname}:{parts.port}"))
    gone = [f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", f"DROP ROLE {role}"]
    asyncio.run(execute(postgres.url, *gone))


CHANGES = {
    "the role may not log in": ("ALTER ROLE {role} NOLOGIN", "ALTER ROLE {role} LOGIN"),
    "the role may not connect": (
        "REVOKE CONNECT ON DATABASE {name} FROM PUBLIC, {role}",
        "GRANT CONNECT ON DATABASE {name} TO {role}",
    ),
    "the database takes no connections": (
        "ALTER DATABASE {name} ALLOW_CONNECTIONS false",
        "ALTER DATABASE {name} ALLOW_CONNECTIONS true",
    ),
}


@contextlib.asynccontextmanager
async def changed(database, change):
    """Change the database, and cut who is connected to it; change it back in the end."""
    url, name, role, _ = database
    there, back = (statement.format(name=name, role=role) for statement in CHANGES[change])
    await execute(url, there, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    try:
        yield
    finally:
        await execute(url, back)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_worker_outlives_a_change_of_the_server_and_its_runs_go_on(database, caplog, change):
    allowed = asyncio.Event()
    executed = []

    @holdfast.step
    async def work(number: int) -> int:
        executed.append(number)
        if number % 3 == 1:
            await allowed.wait()
        return number

    @holdfast.workflow
    async def counting(number: int) -> int:
        return sum([await work(number * 3 + place) for place in range(3)])

    caplog.set_level(logging.WARNING)
    async with holdfast.AsyncClient(database[-1]) as client, holdfast.Worker(client, workflows=[counting]):
        runs = await client.start_many(counting, [(number,) for number in range(10)])
        assert await until(lambda: len(executed) == 20, 30)
        async with changed(database, change):
            allowed.set()
            # Turns and claims, each for itself.
            assert await until(lambda: sum("away" in record.message for record in caplog.records) >= 2, 30)
        assert [await run.result(timeout=60) for run in runs] == [9 * number + 3 for number in range(10)]
    # No lease was lost, so nothing was executed twice; and nobody took the runs for something that can't be stored.
    assert sorted(executed) == list(range(30))


@pytest.mark.parametrize("change", CHANGES)
async def test_an_open_store_is_away_during_a_change_of_the_server(database, change):
    store = open_store(database[-1])
    await store.open()
    try:
        async with changed(database, change):
            for _ in range(2):
                with pytest.raises(StoreAway, match="orkers go on by themselves"):
                    await store.get_run("nobody")
        assert (await store.start_runs([new_run()]))[0].created
    finally:
        await store.close()


async def test_opening_a_store_as_a_role_that_may_not_log_in_raises_an_error_with_advice_once(database):
    async with changed(database, "the role may not log in"):
        with pytest.raises(StoreError, match="not permitted to log in") as caught:
            await open_store(database[-1]).open()
    assert not isinstance(caught.value, StoreAway)
    assert str(caught.value).count("Check the user") == 1


async def test_a_transactional_step_during_a_change_of_the_server_uses_up_no_attempt(database):
    store = open_store(database[-1])
    await store.open()
    try:
        lender = store.lender(LEASE)
        async with changed(database, "the role may not log in"):
            with pytest.raises(StoreAway, match="orkers go on by themselves"):
                await lender.lend().begin()
        loan = lender.lend()
        await loan.begin()
        assert await loan.connection.fetchval("SELECT 1") == 1
        await loan.end()
        lender.close()
    finally:
        await store.close()


class Farewell(Wire):
    """A wire that says goodbye in the server's name right behind the answer to the settings of a connection."""

    is_on = False
    said = 0

    async def _back(self, reader, writer, is_losing):
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 20):
                # Whoever has just made the last of the settings is ready for its next statement.
                if self.is_on and data.count(b"SET\0") >= 8 and data[-6:-1] == b"Z\0\0\0\5":
                    data += b"E" + (len(FAREWELL) + 4).to_bytes(4, "big") + FAREWELL
                    self.said += 1
                writer.write(data)
                await writer.drain()
            writer.close()


async def test_a_listener_whose_connection_ends_between_two_statements_listens_again(postgres, monkeypatch):
    url = postgres.create_database()
    async with Farewell(url) as wire:
        store, other = open_store(wire.url), open_store(url)
        await store.open()
        await other.open()
        told = []
        wire.is_on = True
        unsubscribe = store.subscribe(lambda: told.append(1))
        assert await until(lambda: wire.said >= 2, 30)
        wire.is_on = False
        listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
        connection = await asyncpg.connect(url)
        while not await connection.fetchval(listening):
            await asyncio.sleep(0.02)
        await connection.close()
        # Whoever can't listen is told to look now and then: not here, from now on.
        monkeypatch.setattr("holdfast.store.postgres.watcher._LATEST", 7200)
        await asyncio.sleep(0.1)
        told.clear()
        await other.start_runs([new_run()])
        assert await until(lambda: bool(told), 30)
        unsubscribe()
        await store.close()
        await other.close()


class Silent(Wire):
    """A wire over which nothing comes back once a COMMIT has gone out: the other side is there, and says nothing."""

    is_silent = False

    async def _back(self, reader, writer, is_losing):
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 20):
                if self.is_silent and b"COMMIT\0" in data:
                    self.is_silent = False
                    await asyncio.Event().wait()
                writer.write(data)
                await writer.drain()
            writer.close()


async def test_a_step_s_commit_that_is_never_answered_is_settled_by_reading_the_journal(postgres, monkeypatch):
    url = postgres.create_database()
    await execute(url, "CREATE TABLE effects (number integer)")

    @holdfast.step(transaction=True)
    async def put(db: asyncpg.Connection, number: int) -> int:
        await db.execute("INSERT INTO effects (number) VALUES ($1)", number)
        wire.is_silent = number == 1
        return number

    @holdfast.workflow
    async def putting() -> list[int]:
        return [await put(number) for number in range(3)]

    monkeypatch.setattr("holdfast.store.postgres.loans.COMMAND_TIMEOUT", 0.5)
    assert connections.COMMAND_TIMEOUT == 60
    async with (
        Silent(url) as wire,
        holdfast.AsyncClient(wire.url) as client,
        holdfast.Worker(client, workflows=[putting]),
    ):
        run = await client.start(putting)
        assert await run.result(timeout=30) == [0, 1, 2]
        connection = await asyncpg.connect(url)
        found = [row[0] for row in await connection.fetch("SELECT number FROM effects ORDER BY number")]
        await connection.close()
    assert found == [0, 1, 2]


async def test_dead_workers_are_found_after_a_search_that_failed(database):
    _, _, _, url = database
    store, other = open_store(url), open_store(url)
    await store.open()
    await other.open()
    await other.register_worker("dead", [], LEASE)
    # It leaves its row, and nobody holds its lock.
    await other.close()
    await execute(url, "ALTER TABLE holdfast.runs RENAME COLUMN owner TO owned_by")
    with pytest.raises(StoreAway):
        await store.reap_workers("one")
    await execute(url, "ALTER TABLE holdfast.runs RENAME COLUMN owned_by TO owner")
    assert await store.reap_workers("one") == ["dead"]
    await store.close()


async def test_a_lease_is_renewed_over_an_open_connection_when_no_other_can_be_made(database):
    url, _, role, own = database
    store = open_store(own)
    await store.open()
    try:
        await store.register_worker("one", [LANE], LEASE)
        assert await asyncio.to_thread(store.renew_lease, "one", LEASE) is not None
        store._thread.post(store._renewals.drop)
        await execute(url, f"ALTER ROLE {role} NOLOGIN")
        assert await asyncio.to_thread(store.renew_lease, "one", LEASE) is not None
        assert not store._renewals.is_open
    finally:
        await execute(url, f"ALTER ROLE {role} LOGIN")
        await store.close()


async def test_a_store_that_can_t_listen_polls_often_and_reconnects_less_and_less_often(database, monkeypatch):
    tries = []

    async def connect(target):
        tries.append(target)
        raise StoreAway("not now")

    store = open_store(database[-1])
    await store.open()
    monkeypatch.setattr(watcher, "connect", connect)
    monkeypatch.setattr(watcher, "_UNHEARD", 0.01)
    monkeypatch.setattr(watcher, "_LONGEST_PAUSE", 0.1)
    looks = []
    unsubscribe = store.subscribe(lambda: looks.append(len(tries)))
    # At first there is one look between two tries, later there are ten; a machine that is slow coalesces some of them,
    # but not each time.
    assert await until(lambda: any(looks.count(so_far) > 3 for so_far in range(len(tries))))
    unsubscribe()
    await store.close()


@pytest.mark.parametrize(("given", "name"), [("", "holdfast"), ("?application_name=shop", "shop")])
async def test_connections_have_a_name_that_the_server_shows(database, given, name):
    url, found, _, own = database
    store = open_store(f"{own}{given}")
    await store.open()
    lender = store.lender(LEASE)
    connection = await lender.take()
    try:
        # Of clients: the server's own processes come by, too, to clean up.
        clients = f"FROM pg_stat_activity WHERE datname = '{found}' AND backend_type = 'client backend'"
        rows = await fetch(url, f"SELECT DISTINCT application_name {clients}")
        assert [tuple(row) for row in rows] == [(name,)]
    finally:
        await connection.close()
        await store.close()
