"""Looking for dead workers on Postgres: what a look that fails half-way leaves behind, and who comes in its middle.

Also what is left of a worker that can't say that it is there.
"""

import asyncio
import tempfile

import pytest

from holdfast.errors import StoreAway
from holdfast.store import open_store
from holdfast.store.postgres.transactions import Transaction
from holdfast.testing.contract.stage import LANE, LEASE, T0, new_run
from tests.servers.wire import Wire


async def test_a_search_for_dead_workers_that_fails_at_its_end_keeps_no_lock(postgres):
    async with Wire(postgres.create_database()) as wire:
        # Without sessions of its own, each look ends with a COMMIT: after the dead were found.
        url = f"{wire.url}?pooler=transaction"
        dying, looking = open_store(url), open_store(url)
        await dying.open()
        await looking.open()
        try:
            await dying.register_worker("dead", [LANE], LEASE)
            await dying.close()
            wire.cut_before(lambda data: b"COMMIT\0" in data)
            with pytest.raises(StoreAway):
                await looking.reap_workers("alive")
            assert await looking.reap_workers("alive") == ["dead"]
        finally:
            await looking.close()


async def test_a_worker_that_registers_during_a_search_for_dead_workers_keeps_its_claims(postgres, monkeypatch):
    url = postgres.create_database()
    looking, coming = open_store(url), open_store(url)
    await looking.open()
    await coming.open()
    here, asked, ask = asyncio.get_running_loop(), set[str](), Transaction.all

    async def come() -> None:
        await coming.register_worker("new", [LANE], LEASE, now=T0)
        await coming.start_runs([new_run(id="claimed")], now=T0)
        await coming.claim_runs("new", [LANE], 1, now=T0)

    async def all(tx, name, params):
        if name in ("list_owners", "list_workers"):
            asked.add(name)
            if len(asked) == 2:
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(come(), here))
        return await ask(tx, name, params)

    monkeypatch.setattr(Transaction, "all", all)
    try:
        assert await looking.reap_workers("old", now=T0) == []
        run = await looking.get_run("claimed")
        assert run is not None
        assert run.owner == "new"
    finally:
        await looking.close()
        await coming.close()


async def test_a_worker_that_could_not_register_or_leave_keeps_no_lock(postgres, tmp_path, monkeypatch):
    async with Wire(postgres.create_database()) as wire:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        store = open_store(f"{wire.url}?pooler=transaction")
        await store.open()
        try:
            wire.cut_before(lambda data: b"INSERT INTO holdfast.workers" in data)
            with pytest.raises(StoreAway):
                await store.register_worker("new", [LANE], LEASE)
            await store.register_worker("old", [LANE], LEASE)
            wire.cut_before(lambda data: b"DELETE FROM holdfast.workers" in data)
            with pytest.raises(StoreAway):
                await store.remove_worker("old")
            assert not [*tmp_path.glob("**/*.lock")]
        finally:
            await store.close()
