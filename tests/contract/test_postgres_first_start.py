"""Many processes that start on an empty Postgres at once: one of them migrates, the others find it done."""

from __future__ import annotations

import asyncio

import asyncpg

from holdfast.store import open_store
from holdfast.store.urls import migration_sql
from tests.servers import Databases


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
        while not await other.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"):
            assert not opening.done()
            await asyncio.sleep(0.01)
        await transaction.commit()
        await opening
        await store.close()
    finally:
        await other.close()


async def test_any_number_of_stores_may_be_the_first(postgres: Databases):
    url = postgres.create_database()
    stores = [open_store(url) for _ in range(8)]
    await asyncio.gather(*(store.open() for store in stores))
    assert [await store.list_workflows() for store in stores] == [[]] * 8
    for store in stores:
        await store.close()
