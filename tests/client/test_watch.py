"""Waiting: thousands of handles, one question at a time."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from holdfast.client import AsyncClient, watch
from holdfast.client.watch import Watcher
from holdfast.errors import ClientClosed, RunNotFound, StoreAway
from holdfast.model import Ended, RowChange, RunRecord, RunStatus, Turn, encode_entries
from tests.client.hands import at, total


class Watched:
    """A store in front of a store: it counts questions, and can be away."""

    def __init__(self, store) -> None:
        self.store = store
        self.questions: list[int] = []
        self.under_way = 0
        self.most_under_way = 0
        self.subscribers = 0
        self.is_away = False
        self.asked = asyncio.Event()

    def subscribe(self, changed, to):
        self.subscribers += 1
        leave = self.store.subscribe(changed, to)

        def unsubscribe() -> None:
            self.subscribers -= 1
            leave()

        return unsubscribe

    async def read_ended(self, run_ids) -> list[RunRecord]:
        self.questions.append(len(run_ids))
        self.asked.set()
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if self.is_away:
                raise StoreAway("the cable is out")
            return await self.store.read_ended(run_ids)
        finally:
            self.under_way -= 1

    async def read_gone(self, run_ids) -> list[str]:
        return await self.store.read_gone(run_ids)

    @property
    def namespace(self) -> str:
        return self.store.namespace


async def watched(client: AsyncClient) -> tuple[Watched, Watcher]:
    store = Watched(await client._connection.opened())
    return store, Watcher(store)


async def complete(client, hands, runs) -> None:
    """End many runs in one commit."""
    await hands.register()
    claimed = await client.store.claim_runs("hands", hands.lanes, len(runs))
    data = encode_entries([Ended(at(), "completed", b"1")])
    change = RowChange(status=RunStatus.COMPLETED, output=b"1")
    turns = [
        Turn(run_id=run.id, seq=run.next_seq, epoch=run.epoch, at=at(), data=data, change=change) for run in claimed
    ]
    assert all(await client.store.commit_turns(turns))


async def test_a_thousand_waits_cost_a_handful_of_reads(client, hands, monkeypatch):
    monkeypatch.setattr(watch, "POLL", 3600)
    runs = await client.start_many(total, [(n,) for n in range(1_000)])
    store, watcher = await watched(client)
    waits = [asyncio.create_task(watcher.wait(run.id)) for run in runs]
    await asyncio.wait_for(store.asked.wait(), 60)
    await complete(client, hands, runs)
    ended = await asyncio.gather(*waits)
    assert {record.status for record in ended} == {RunStatus.COMPLETED}
    assert max(store.questions) <= watch.CHUNK
    assert len(store.questions) < 20
    assert store.most_under_way == 1


async def test_many_may_wait_for_one_run(client, hands):
    run = await client.start(total, 1)
    store, watcher = await watched(client)
    waits = [asyncio.create_task(watcher.wait(run.id)) for _ in range(100)]
    await asyncio.wait_for(store.asked.wait(), 60)
    await hands.complete(run.id, 1)
    assert len(await asyncio.gather(*waits)) == 100
    assert max(store.questions) == 1


async def test_a_wait_that_is_given_up_does_not_disturb_the_others(client, hands):
    run = await client.start(total, 1)
    store, watcher = await watched(client)
    leaving, staying = (asyncio.create_task(watcher.wait(run.id)) for _ in range(2))
    await asyncio.wait_for(store.asked.wait(), 60)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await hands.complete(run.id, 1)
    assert (await asyncio.wait_for(staying, 60)).id == run.id


async def test_the_watch_keeps_no_subscription_and_no_task_when_nobody_waits(client, hands, monkeypatch):
    monkeypatch.setattr(watch, "LINGER", 0.01)
    run = await client.start(total, 1)
    store, watcher = await watched(client)
    waiting = asyncio.create_task(watcher.wait(run.id))
    await asyncio.wait_for(store.asked.wait(), 60)
    assert store.subscribers == 1
    task = watcher._task
    waiting.cancel()
    await asyncio.wait([task], timeout=60)
    assert (store.subscribers, watcher._task) == (0, None)
    # And it begins again for the next one.
    await hands.complete(run.id, 1)
    assert (await watcher.wait(run.id)).id == run.id


async def test_waits_outlive_a_store_that_is_away(client, hands, monkeypatch):
    monkeypatch.setattr(watch, "POLL", 0.01)
    run = await client.start(total, 1)
    store, watcher = await watched(client)
    store.is_away = True
    waiting = asyncio.create_task(watcher.wait(run.id))
    while len(store.questions) < 3:
        await asyncio.sleep(0.01)
    assert not waiting.done()
    await hands.complete(run.id, 1)
    store.is_away = False
    assert (await asyncio.wait_for(waiting, 60)).id == run.id


async def test_an_end_without_news_is_found_by_looking_now_and_then(client, hands, monkeypatch):
    monkeypatch.setattr(watch, "POLL", 0.01)
    run = await client.start(total, 1)
    store, _ = await watched(client)
    store.subscribe = lambda changed, to: lambda: None
    watcher = Watcher(store)
    waiting = asyncio.create_task(watcher.wait(run.id))
    await asyncio.wait_for(store.asked.wait(), 60)
    await hands.complete(run.id, 1)
    assert (await asyncio.wait_for(waiting, 60)).id == run.id


async def test_a_wait_for_a_run_that_was_deleted_ends(client, hands, monkeypatch):
    monkeypatch.setattr(watch, "POLL", 0.01)
    monkeypatch.setattr(watch, "CENSUS", 0.01)
    run, other = await client.start_many(total, [(1,), (2,)])
    await hands.complete(run.id, 1)
    await client.delete(run.id)
    _, watcher = await watched(client)
    staying = asyncio.create_task(watcher.wait(other.id))
    with pytest.raises(RunNotFound, match=run.id):
        await asyncio.wait_for(watcher.wait(run.id), 60)
    await hands.complete(other.id, 2)
    assert (await asyncio.wait_for(staying, 60)).id == other.id


async def test_a_run_that_comes_after_the_wait_for_it_is_waited_for(client, hands, monkeypatch):
    """It was started in a transaction that its caller has not committed yet."""
    monkeypatch.setattr(watch, "POLL", 0.01)
    monkeypatch.setattr(watch, "CENSUS", 0.01)
    store, watcher = await watched(client)

    async def read_gone(run_ids) -> list[str]:
        gone = await store.store.read_gone(run_ids)
        if gone:
            await client.start(total, 1, id="later")
            await hands.complete("later", 1)
        return gone

    store.read_gone = read_gone
    assert (await asyncio.wait_for(watcher.wait("later"), 60)).id == "later"


async def test_an_error_other_than_a_store_that_is_away_reaches_every_wait(client):
    run = await client.start(total, 1)
    store, watcher = await watched(client)

    async def broken(run_ids):
        raise RuntimeError("a bug")

    store.read_ended = broken
    with pytest.raises(RuntimeError, match="a bug"):
        await watcher.wait(run.id)


async def test_closing_the_client_ends_its_waits(client):
    run = await client.start(total, 1)
    waiting = asyncio.create_task(run.result())
    watcher = await client._connection.watcher()
    while not watcher._waiting:
        await asyncio.sleep(0.001)
    await client.close()
    with pytest.raises(ClientClosed, match="the run goes on"):
        await waiting


def test_a_client_keeps_no_loop_that_has_ended(client):
    async def wait() -> weakref.ref[asyncio.AbstractEventLoop]:
        run = await client.start(total, 1)
        with pytest.raises(TimeoutError):
            await run.wait(timeout=0.001)
        return weakref.ref(asyncio.get_running_loop())

    # The first one has opened the store, and the last one may be used again.
    _, *past, _ = [asyncio.run(wait()) for _ in range(4)]
    gc.collect()
    assert [loop() for loop in past] == [None, None]
