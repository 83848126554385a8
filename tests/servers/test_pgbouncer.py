"""The PgBouncer that tests get is a real one: in transaction mode a session is shared, and none of it is kept."""

from collections.abc import Iterator

import asyncpg
import pytest

from tests.servers import PgBouncer, Postgres, ServerMissing
from tests.servers.pgbouncer import GIVEN


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(durable=False) as server:
        yield server


async def connect(url: str) -> asyncpg.Connection:
    # Its prepared statements have to be off: the next transaction may be on another server connection.
    return await asyncpg.connect(url, statement_cache_size=0)


async def test_in_transaction_mode_clients_share_one_backend(server):
    with PgBouncer(server.url, pool_size=1) as pooler:
        first, second = await connect(pooler.url_for(server.url)), await connect(pooler.url_for(server.url))
        pids = [await client.fetchval("select pg_backend_pid()") for client in (first, second)]
        await first.close()
        await second.close()
    assert pids[0] == pids[1]


async def test_in_session_mode_each_client_has_its_own(server):
    with PgBouncer(server.url, pool_mode="session") as pooler:
        first, second = await connect(pooler.url_for(server.url)), await connect(pooler.url_for(server.url))
        pids = [await client.fetchval("select pg_backend_pid()") for client in (first, second)]
        await first.close()
        await second.close()
    assert pids[0] != pids[1]


async def test_it_leads_to_every_database_of_the_server(server):
    url = server.create_database()
    with PgBouncer(server.url) as pooler:
        client = await connect(pooler.url_for(url))
        name = await client.fetchval("select current_database()")
        await client.close()
    assert url.endswith(f"/{name}")


async def test_it_comes_back_on_the_same_port_after_a_kill(server):
    with PgBouncer(server.url) as pooler:
        url = pooler.url_for(server.url)
        pooler.kill()
        with pytest.raises(OSError, match="Connect call failed"):
            await connect(url)
        pooler.start()
        client = await connect(url)
        assert await client.fetchval("select 1") == 1
        await client.close()


def test_a_machine_without_it_is_told_what_to_do(monkeypatch, tmp_path):
    monkeypatch.delenv(GIVEN, raising=False)
    monkeypatch.setattr("tests.servers.pgbouncer.FETCHED", tmp_path)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(ServerMissing, match=r"python -m tests\.servers"):
        PgBouncer("postgresql://127.0.0.1/postgres")
