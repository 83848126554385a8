"""What the owner of a database has set for everybody in it, such as how far transactions are kept apart.

Later statements of the store's transactions look for what was committed since the earlier ones, a commit that is
answered is durable, and what is written is read back: none of it hangs on somebody's defaults.
"""

import asyncio
from functools import partial
from urllib.parse import urlsplit

import msgspec
import pytest

from holdfast import Client, RunFilter, workflow
from holdfast.model import ChildEnd
from holdfast.store import open_store
from holdfast.testing.contract.stage import Stage, new_run
from tests.contract import ways
from tests.servers import execute

WAYS = {"directly": "", "through a pooler": "?pooler=transaction"}
LEVELS = ["repeatable read", "serializable"]


@workflow
async def ship(note: str) -> str:
    return note


@pytest.fixture
def with_default(postgres):
    """Databases whose owner has set something for all who connect."""

    def make(name, value):
        url = postgres.create_database()
        asyncio.run(execute(url, f"ALTER DATABASE {urlsplit(url).path[1:]} SET {name} = '{value}'"))
        return url

    return make


@pytest.fixture(params=LEVELS)
def apart(request, with_default):
    """A database whose transactions see nothing that is younger than they are."""
    return with_default("default_transaction_isolation", request.param)


@pytest.fixture
def unsynced(with_default):
    """A database whose commits are answered before they are durable."""
    return with_default("synchronous_commit", "off")


async def done(url, way, deed):
    """What a deed comes to in a transaction of a store that goes this way. The deed gets another store beside it."""
    store, other = open_store(url + WAYS[way]), open_store(url)
    await store.open()
    await other.open()
    try:
        return await store._thread.call(partial(store._pool.run, partial(deed, other=other)))
    finally:
        await other.close()
        await store.close()


@pytest.mark.parametrize("way", WAYS)
def test_later_statements_of_a_transaction_see_what_was_committed_since(apart, way):
    async def looking(tx, other):
        query = "SELECT count(*) FROM holdfast.runs"
        [[before]] = await tx.execute(query, ())
        await other.start_runs([new_run()])
        [[after]] = await tx.execute(query, ())
        return before, after

    assert asyncio.run(done(apart, way, looking)) == (0, 1)


@pytest.mark.parametrize("way", WAYS)
def test_transactions_are_synchronous_though_the_database_s_default_is_not(unsynced, way):
    async def looking(tx, other):
        [[found]] = await tx.execute("SHOW synchronous_commit", ())
        return found

    assert asyncio.run(done(unsynced, way, looking)) == "on"


@pytest.fixture
def escaping(with_default):
    """A database that takes a backslash in any text for the beginning of an escape."""
    return with_default("standard_conforming_strings", "off")


@pytest.mark.parametrize("way", WAYS)
async def test_a_parent_hears_of_a_child_s_end_where_backslashes_are_escapes(escaping, way):
    stage = Stage(partial(open_store, escaping + WAYS[way]))
    await stage.store.open()
    try:
        parent = await stage.held()
        child = await stage.held(parent_id=parent.id, parent_key="child")
        await stage.end(child)
        [message] = await stage.store.read_inbox("one")
    finally:
        await stage.close()
    assert msgspec.msgpack.decode(message.payload, type=ChildEnd) == ChildEnd(child.id, "completed")


@pytest.mark.parametrize("way", [ways.plain_psycopg, ways.piped_psycopg, ways.alchemy, ways.through_django])
def test_a_start_on_a_caller_s_connection_is_read_back_where_backslashes_are_escapes(escaping, way):
    ways.make_table(escaping)
    with Client(escaping) as client:
        way(escaping, lambda connection: client.start(ship, "back\\slash", connection=connection), True)
        assert len(list(client.runs(RunFilter(input={"note": "back\\slash"}, workflow=ship)))) == 1
