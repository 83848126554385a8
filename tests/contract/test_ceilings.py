"""A store with a ceiling keeps no run longer, whatever it asks for and however it ends; and events are kept as told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast import AsyncClient, DefinitionError, Worker, workflow
from holdfast.model import SECOND, Out, RowChange, RunStatus, Sent
from holdfast.store import open_store
from holdfast.testing.contract.stage import T0, Stage, after, new_run, turn
from holdfast.worker import SystemClock
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
        continued = await stage.held(retention=retention)
        unbegun = await stage.start_one(retention=retention)
        await stage.end(ended)
        await stage.store.cancel_run(forced.id, force=True, now=T0)
        await stage.store.cancel_run(unbegun, now=T0)
        change = RowChange(status=RunStatus.CONTINUED)
        await stage.commit(turn(continued, change=change, out=Out(successor=new_run())))
        assert await gone(stage, 9.9) == 0
        assert await gone(stage, 10) == 4


async def test_a_shorter_retention_counts(url):
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


async def test_a_client_and_its_worker_share_the_ceiling(database_url, monkeypatch):
    monkeypatch.setenv("HOLDFAST_MAX_RETENTION", "1d")
    async with AsyncClient(database_url) as client, Worker(client, workflows=[kept]):
        run = await client.start(kept)
        assert await run.result(timeout=20) == "done"
        now = SystemClock().now()
        assert not (await client.store.sweep(9, events_before=0, now=now + 23 * 3600 * SECOND)).run_ids
        assert (await client.store.sweep(9, events_before=0, now=now + 25 * 3600 * SECOND)).run_ids == (run.id,)


async def test_a_ceiling_for_a_store_that_is_there_is_refused(database_url):
    async with AsyncClient(database_url) as client:
        with pytest.raises(DefinitionError, match="give it to the client"):
            Worker(client, workflows=[kept], max_retention="1d")
        with pytest.raises(DefinitionError, match="belongs to the store"):
            AsyncClient(client.store, max_retention="1d")


async def test_events_are_kept_for_as_long_as_the_worker_is_told(database_url):
    class Later(SystemClock):
        def now(self) -> int:
            return super().now() + 3_601 * SECOND

    async with AsyncClient(database_url) as client:
        await client.publish("paid", 1, message_id="once")
        for kept_for, is_kept in (("2h", True), ("1h", False)):
            await Worker(client, workflows=[kept], event_retention=kept_for, clock=Later()).drive()
            # Its message id is kept as long as the event.
            again = await client.store.publish_event("paid", b"", message_id="once")
            assert (again is Sent.DUPLICATE) == is_kept
