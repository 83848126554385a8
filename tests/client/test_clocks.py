"""A client on a host whose clock is not the database's: what it stamps and what it counts goes by the store's."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from datetime import timedelta

import asyncpg
import pytest

from holdfast.client import AsyncClient
from holdfast.model import (
    Blocked,
    Instant,
    Reopened,
    Reseeded,
    RunRetrying,
    StepCompleted,
    instant_of,
    moment_of,
)
from holdfast.store import SqliteStore
from tests.client.hands import Hands, entries_of, failed, total
from tests.servers import Databases

HOUR = 3_600_000_000


def an_hour_ago() -> Instant:
    return time.time_ns() // 1_000 - HOUR


@pytest.fixture
def client(tmp_path):
    """A client whose host is an hour ahead of its store."""
    path = str(tmp_path / "runs.db")
    store = SqliteStore(path, f"sqlite:///{path}", "default", clock=an_hour_ago)
    yield AsyncClient(store)
    asyncio.run(store.close())


@pytest.fixture
def hands(client: AsyncClient, monkeypatch: pytest.MonkeyPatch) -> Hands:
    """A worker that goes by the store's clock, as workers do."""
    monkeypatch.setattr("tests.client.hands.at", an_hour_ago)
    return Hands(client)


def is_of_the_store(at: Instant) -> bool:
    return abs(at - an_hour_ago()) < HOUR // 2


@pytest.mark.parametrize("way", ["retry", "start", "own transaction"])
async def test_a_retry_is_stamped_by_the_store_s_clock(client, hands, way, tmp_path):
    old = await failed(client, hands, key="k")
    if way == "retry":
        new = await client.retry(old.id)
    elif way == "start":
        new = await client.start(total, 1, key="k", on_conflict="retry")
    else:
        with contextlib.closing(sqlite3.connect(tmp_path / "runs.db")) as own:
            new = await client.start(total, 1, key="k", on_conflict="retry", connection=own)
            own.commit()
    entry = (await entries_of(client, new.id))[-1]
    assert isinstance(entry, RunRetrying)
    assert is_of_the_store(entry.retry_at)


async def test_a_fork_is_stamped_by_the_store_s_clock(client, hands):
    old = await failed(client, hands)
    new = await client.fork(old.id, at="second", result=3)
    stamps = [
        entry.at
        for entry in await entries_of(client, new.id)
        if isinstance(entry, (Blocked, Reopened, Reseeded, StepCompleted))
    ]
    assert stamps
    assert all(map(is_of_the_store, stamps))


async def test_prune_measures_a_duration_by_the_store_s_clock(client, hands):
    await failed(client, hands)
    assert (await client.prune(older_than="10m")).runs == 0
    assert (await client.prune(older_than="0s")).runs == 1


async def test_prune_by_a_moment_deletes_runs_that_ended_before_it(client, hands):
    await failed(client, hands)
    now = await client.now()
    assert (await client.prune(older_than=now - timedelta(minutes=10))).runs == 0
    assert (await client.prune(older_than=now)).runs == 1


async def test_a_client_gives_the_store_s_time(client):
    assert is_of_the_store(instant_of(await client.now()))


async def test_explain_measures_remaining_time_by_the_store_s_clock(client):
    run = await client.start(total, 1, delay="10m")
    assert "in 10m" in str(await client.explain(run.id)) or "in 9m" in str(await client.explain(run.id))


async def test_a_store_on_a_caller_s_connection_gives_the_time_of_that_database(postgres: Databases):
    url = postgres.create_database()
    async with AsyncClient(url) as client:
        store = client.store
        await store.open()
        own = await asyncpg.connect(url)
        try:
            before = await store.read_clock()
            async with own.transaction():
                assert before <= await store.guest(own).read_clock() <= await store.read_clock()
                assert moment_of(before) <= await own.fetchval("select clock_timestamp()")
        finally:
            await own.close()
