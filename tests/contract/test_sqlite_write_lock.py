"""What waits while somebody else holds the write lock of a SQLite file, and what does not."""

import asyncio
import contextlib
import sqlite3
import time

import pytest

from holdfast.errors import StoreAway
from holdfast.store import open_store
from holdfast.testing.contract.stage import LEASE


def test_a_writer_waits_for_the_lock_and_tries_often(play, path, monkeypatch):
    pauses: list[float] = []
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: (pauses.append(seconds), sleep(seconds)))

    async def act(stage):
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            writes = asyncio.gather(stage.start(1), asyncio.to_thread(stage.store.renew_lease, "one", LEASE))
            while len(pauses) < 100:
                await asyncio.sleep(0.001)
            assert not writes.done()
            other.execute("COMMIT")
            await writes
        assert max(pauses) < 0.01
        assert await stage.store.get_run("nobody") is None

    play(act)


def test_reading_goes_on_while_somebody_holds_the_write_lock(play, path):
    async def act(stage):
        run_id = await stage.start_one()
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert (await stage.run(run_id)).id == run_id
        other.close()

    play(act)


def test_a_database_is_opened_to_be_read_while_somebody_holds_the_write_lock(play, path, monkeypatch):
    monkeypatch.setattr("holdfast.store.sqlite.connections.PATIENCE", 0.2)

    async def act(stage):
        run_id = await stage.start_one()
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            reader = open_store(f"sqlite:///{path}")
            await reader.open()
            assert (await reader.get_run(run_id)).id == run_id
            await reader.close()

    play(act)


def test_a_store_whose_write_lock_is_never_given_back_is_away(play, path, monkeypatch):
    monkeypatch.setattr("holdfast.store.sqlite.connections.PATIENCE", 0.2)

    async def act(stage):
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreAway, match="lock"):
            await stage.start(1)
        other.execute("ROLLBACK")
        assert len(await stage.start(1)) == 1
        other.close()

    play(act)
