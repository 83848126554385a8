"""Those who open a Postgres at once: one of them migrates, the others find it done, and each hears how it went."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from holdfast.errors import StoreAway
from holdfast.store import open_store
from holdfast.store.urls import migration_sql
from tests.servers import Databases

WAITING = """
SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()
"""


async def test_a_store_that_waited_for_another_ones_migration_finds_it_done(postgres: Databases):
    url = postgres.create_database()
    other = await asyncpg.connect(url)
    try:
        # Another process is in the middle of migrating, and holds the lock.
        transaction = other.transaction()
        await transaction.start()
        await other.execute("SELECT pg_advisory_xact_lock(hashtextextended('holdfast.holdfast', 0))")
        body = migration_sql(url).replace("BEGIN;", "", 1).rpartition("COMMIT;")[0]
        await other.execute(body)
        store = open_store(url)
        opening = asyncio.create_task(store.open())
        while not await other.fetchval(WAITING):
            assert not opening.done()
            await asyncio.sleep(0.01)
        await transaction.commit()
        await opening
        await store.close()
    finally:
        await other.close()


async def test_many_stores_at_once_may_migrate_an_empty_database(postgres: Databases):
    url = postgres.create_database()
    stores = [open_store(url) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    assert [await store.list_workflows() for store in stores] == [[]] * 8
    for store in stores:
        await store.close()


async def test_an_opening_that_fails_does_not_fail_another_of_the_same_store(postgres: Databases):
    """As a client opens it, and the worker that the client was given to."""
    url = postgres.create_database()
    other = await asyncpg.connect(url)
    try:
        await other.execute("SELECT pg_advisory_lock(hashtextextended('holdfast.holdfast', 0))")
        store = open_store(url)
        openings = [asyncio.create_task(store.open()) for _ in range(2)]
        while len(found := await other.fetch(WAITING)) < 2:
            await asyncio.sleep(0.01)
        await other.execute("SELECT pg_terminate_backend($1)", found[0]["pid"])
        async with asyncio.timeout(60):
            [failed], [still] = await asyncio.wait(openings, return_when=asyncio.FIRST_COMPLETED)
            with pytest.raises(StoreAway):
                await failed
            await other.execute("SELECT pg_advisory_unlock_all()")
            await still
            assert await store.list_workflows() == []
    finally:
        await other.close()
    await store.close()
