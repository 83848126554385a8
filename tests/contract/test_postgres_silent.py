"""A server that neither answers nor hangs up: closing takes seconds, and whoever waits for an answer is told."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from holdfast import AsyncClient, Worker, step, workflow
from holdfast.errors import StoreAway
from holdfast.store import open_store
from holdfast.testing.contract.stage import turn
from tests.contract.staging import staged
from tests.servers.wire import Wire

SOON = 20.0
"""Seconds: far below what a statement may take, and enough for a machine that stands still for a while."""
AT_ONCE = 12.0
"""Below what a worker that stops would wait for its grace, its claims, its runs and its renewal."""


@step
async def idle() -> None:
    await asyncio.sleep(3600)


@workflow
async def idling() -> None:
    await idle()


async def test_a_store_on_a_silent_server_closes_within_seconds_and_fails_its_waiting_calls(postgres):
    async with Wire(postgres.create_database()) as wire:
        store = open_store(wire.url)
        await store.open()
        wire.fall_silent()
        # More than there are connections: some wait in line, some connect.
        asked = [asyncio.create_task(store.get_run("r")) for _ in range(6)]
        await asyncio.sleep(0.1)
        began = time.monotonic()
        await store.close()
        assert time.monotonic() - began < SOON
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(answer, StoreAway)


async def test_a_store_with_nothing_under_way_is_closed_within_seconds(postgres):
    async with Wire(postgres.create_database()) as wire:
        store = open_store(wire.url)
        await store.open()
        wire.fall_silent()
        began = time.monotonic()
        await store.close()
        assert time.monotonic() - began < SOON


async def test_closing_the_store_breaks_off_a_turn_under_way_with_an_error(postgres):
    async with Wire(postgres.create_database()) as wire:
        async with staged(wire.url) as stage:
            run, other = await stage.held(), await stage.held()
            assert await stage.commit(turn(run)) == [True]
            wire.fall_silent()
            writing = asyncio.ensure_future(stage.store.commit_turns([turn(run, after=1), turn(other)]))
            await asyncio.sleep(0.1)
            began = time.monotonic()
        assert time.monotonic() - began < SOON
        with pytest.raises(StoreAway):
            await writing


async def test_a_turn_that_gets_no_answer_in_time_is_tried_over_a_new_connection(postgres, monkeypatch):
    monkeypatch.setattr("holdfast.store.postgres.links.COMMAND_TIMEOUT", 0.2)
    async with Wire(postgres.create_database()) as wire, staged(wire.url) as stage:
        run = await stage.held()
        assert await stage.commit(turn(run)) == [True]
        # Longer than a statement may take, and nothing is asked: nobody is to be hung up on for that.
        await asyncio.sleep(0.3)
        assert await stage.commit(turn(run, after=1)) == [True]
        wire.fall_silent()
        writing = asyncio.ensure_future(stage.store.commit_turns([turn(run, after=2)]))
        async with asyncio.timeout(SOON):
            while not wire.unanswered:
                await asyncio.sleep(0.02)
        wire.cut_all()
        with pytest.raises(StoreAway):
            await writing


@asynccontextmanager
async def at_work(postgres):
    """A worker in the middle of a step, the wire to its database, and what comes of the worker."""
    async with Wire(postgres.create_database()) as wire:
        worker = Worker(wire.url, workflows=[idling], grace="1s")
        async with AsyncClient(wire.url) as client:
            run = await client.start(idling)
            working = asyncio.create_task(worker.run())
            while not (await run.refresh()).record.owner:
                await asyncio.sleep(0.02)
        yield wire, worker, working


async def test_a_worker_ends_soon_after_its_grace_and_says_why_it_gave_nothing_back(postgres, caplog):
    async with at_work(postgres) as (wire, worker, working):
        wire.fall_silent()
        worker.stop()
        # For the claim under way, for steps, to hand its runs back, and for the renewal; and then the store.
        await asyncio.wait_for(working, 5 + 1 + 5 + 5 + SOON)
    assert "the store is away, others take over from here when the lease ends: it does not answer" in caplog.text


async def test_a_worker_that_is_told_to_leave_while_it_stops_leaves_at_once(postgres):
    async with at_work(postgres) as (wire, worker, working):
        wire.fall_silent()
        worker.stop()
        await asyncio.sleep(0.3)
        assert not working.done()
        began = time.monotonic()
        worker.leave()
        await asyncio.wait_for(working, 60)
        assert time.monotonic() - began < AT_ONCE
