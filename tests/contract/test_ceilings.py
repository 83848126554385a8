"""A store with a ceiling keeps no run longer, whatever it asks for and however it ends; and events are kept as told."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import psycopg
import pytest

from holdfast import AsyncClient, DefinitionError, Worker, step, workflow
from holdfast.model import SECOND, Out, RowChange, RunStatus, Sent
from holdfast.observe import Fact, Observer, RunsSwept
from holdfast.store import open_store
from holdfast.testing.contract.chains import continued
from holdfast.testing.contract.stage import T0, Stage, after, new_run, turn
from holdfast.worker import SystemClock, upkeep
from tests.servers import Databases

CEILING = 10 * SECOND


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, database_url: str) -> str:
    if request.param == "sqlite":
        return database_url
    databases: Databases = request.getfixturevalue("postgres")
    return databases.create_database()


@asynccontextmanager
async def on_stage(url: str, max_retention: int | None = CEILING) -> AsyncIterator[Stage]:
    stage = Stage(lambda: open_store(url, max_retention=max_retention))
    await stage.store.open()
    try:
        yield stage
    finally:
        await stage.close()


async def gone(stage: Stage, seconds: float) -> int:
    """How many runs a sweep removes at that time."""
    return len((await stage.store.sweep(100, events_before=T0, now=after(seconds))).run_ids)


@pytest.mark.parametrize("retention", [None, CEILING + 1, 10**15], ids=["for ever", "a little longer", "long"])
async def test_no_run_is_kept_longer_than_the_ceiling(url, retention):
    async with on_stage(url) as stage:
        ended, forced = await stage.held(retention=retention), await stage.held(retention=retention)
        later = await continued(stage, await stage.held(), retention=retention)
        unbegun = await stage.start_one(retention=retention)
        await stage.end(ended)
        await stage.store.cancel_run(forced.id, force=True, now=T0)
        await stage.store.cancel_run(unbegun, now=T0)
        change = RowChange(status=RunStatus.CONTINUED)
        await stage.commit(turn(later, change=change, out=Out(successor=new_run())))
        assert await gone(stage, 9.9) == 0
        assert await gone(stage, 10) == 4


async def test_a_retention_shorter_than_the_ceiling_counts(url):
    async with on_stage(url) as stage:
        await stage.end(await stage.held(retention=3 * SECOND))
        assert await gone(stage, 2.9) == 0
        assert await gone(stage, 3) == 1


async def test_without_a_ceiling_runs_are_kept_as_they_ask(url):
    async with on_stage(url, None) as stage:
        await stage.end(await stage.held(retention=None))
        await stage.end(await stage.held(retention=CEILING * 2))
        assert await gone(stage, 20) == 1
        assert await gone(stage, 10**9) == 0


@workflow(retention=None)
async def kept() -> str:
    return "done"


async def expired(client: AsyncClient, *, hours: int) -> tuple[str, ...]:
    """Which runs a sweep removes so long from now."""
    later = SystemClock().now() + hours * 3_600 * SECOND
    return (await client.store.sweep(9, events_before=0, now=later)).run_ids


async def test_a_client_and_its_worker_share_the_ceiling(database_url, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MAX_RETENTION", "1d")
    async with AsyncClient(database_url) as client, Worker(client, workflows=[kept]):
        run = await client.start(kept)
        assert await run.result(timeout=20) == "done"
        assert await expired(client, hours=23) == ()
        assert await expired(client, hours=25) == (run.id,)


@step(transaction=True)
def note(db: sqlite3.Connection) -> str:
    return "noted"


@step(transaction=True)
async def note_there(db: asyncpg.Connection) -> str:
    return "noted"


@workflow(retention=None)
async def noting() -> str:
    return note()


@workflow(retention=None)
async def noting_there() -> str:
    return await note_there()


async def test_a_run_that_a_transactional_step_ends_is_kept_no_longer(url, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MAX_RETENTION", "1d")
    body = noting if url.startswith("sqlite") else noting_there
    async with AsyncClient(url) as client, Worker(client, workflows=[body]):
        run = await client.start(body)
        assert await run.result(timeout=20) == "noted"
        assert await expired(client, hours=25) == (run.id,)


async def test_a_run_that_ends_in_a_transaction_of_the_caller_s_is_kept_no_longer(url, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MAX_RETENTION", "1d")
    connect = sqlite3.connect if url.startswith("sqlite") else psycopg.connect
    async with AsyncClient(url) as client:
        run = await client.start(kept, key="one")
        connection = connect(url.removeprefix("sqlite:///"))
        await client.start(kept, key="one", on_conflict="replace", connection=connection)
        connection.commit()
        connection.close()
        assert (await run.refresh()).status == "cancelled"
        assert await expired(client, hours=25) == (run.id,)


@pytest.mark.parametrize("ceiling", ["1d", 86400, timedelta(days=1)], ids=["a text", "seconds", "a timedelta"])
async def test_a_client_is_given_its_ceiling_as_any_duration(database_url, ceiling):
    async with AsyncClient(database_url, max_retention=ceiling) as client:
        run = await client.start(kept)
        await client.cancel(run.id)
        assert await expired(client, hours=23) == ()
        assert await expired(client, hours=25) == (run.id,)


async def test_a_ceiling_beside_a_given_store_is_refused(database_url):
    async with AsyncClient(database_url) as client:
        with pytest.raises(DefinitionError, match="give it to the client"):
            Worker(client, workflows=[kept], max_retention="1d")
        with pytest.raises(DefinitionError, match="belongs to the store"):
            AsyncClient(client.store, max_retention="1d")


class Later(SystemClock):
    """An hour ahead, and a little."""

    def now(self) -> int:
        return super().now() + 3_601 * SECOND


async def is_kept(client: AsyncClient) -> bool:
    """Whether the event is still there: its message id is kept as long."""
    return await client.store.publish_event("paid", b"", message_id="once") is Sent.DUPLICATE


@pytest.mark.parametrize(("kept_for", "expected"), [("2h", True), ("1h", False)])
async def test_a_drive_keeps_events_for_as_long_as_it_is_told(database_url, kept_for, expected):
    async with AsyncClient(database_url) as client:
        await client.publish("paid", 1, message_id="once")
        await Worker(client, workflows=[kept], event_retention=kept_for, clock=Later()).drive()
        assert await is_kept(client) is expected


@pytest.mark.parametrize(("kept_for", "expected"), [("2h", True), ("1h", False)])
async def test_a_worker_keeps_events_for_as_long_as_it_is_told(database_url, monkeypatch, kept_for, expected):
    swept = asyncio.Event()

    class Told(Observer):
        def observe(self, fact: Fact) -> None:
            if isinstance(fact, RunsSwept):
                swept.set()

    # At once, and not only when it has lived for a while.
    monkeypatch.setattr(upkeep, "_SWEEP_EVERY", 1)
    async with AsyncClient(database_url) as client:
        await client.publish("paid", 1, message_id="once")
        async with Worker(client, workflows=[kept], event_retention=kept_for, clock=Later(), observers=[Told()]):
            async with asyncio.timeout(20):
                await swept.wait()
            assert await is_kept(client) is expected
