"""Following a run: its changes and its streams are waited for like its end, also while the store is away."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client import AsyncClient, streams
from holdfast.errors import ClientClosed, StoreAway
from holdfast.model import RunStatus
from holdfast.store import open_store
from tests.client.hands import total


async def test_following_changes_goes_on_when_the_store_is_back(client, hands, monkeypatch):
    monkeypatch.setattr(streams, "POLL", 0.01)
    run = await client.start(total, 1)
    changes = run.changes()
    assert await anext(changes) is RunStatus.PENDING
    await hands.complete(run.id, 1)
    go_away(monkeypatch, client.store, "get_run")
    assert [status async for status in changes] == [RunStatus.COMPLETED]


async def test_following_a_stream_goes_on_when_the_store_is_back(client, hands, monkeypatch):
    monkeypatch.setattr(streams, "POLL", 0.01)
    run = await client.start(total, 1)
    await hands.complete(run.id, 1)
    go_away(monkeypatch, client.store, "read_items")
    assert [item async for item in run.stream("rows")] == []


def go_away(monkeypatch, store, method):
    """The store is away for a few questions of this kind."""
    answered, left = getattr(store, method), [1, 2, 3]

    async def asked(*args, **named):
        if left:
            raise StoreAway(f"the cable is out, {left.pop()}")
        return await answered(*args, **named)

    monkeypatch.setattr(store, method, asked)


@pytest.mark.parametrize("what", ["changes", "stream"])
async def test_a_follower_is_told_that_its_client_was_closed_though_the_store_stays_open(
    database_url, monkeypatch, what
):
    monkeypatch.setattr(streams, "POLL", 0.01)
    store = open_store(database_url)
    await store.open()
    try:
        client = AsyncClient(store)
        run = await client.start(total, 1)
        items = run.changes() if what == "changes" else run.stream("rows")
        if what == "changes":
            assert await anext(items) is RunStatus.PENDING
        following = asyncio.create_task(anext(items))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ClientClosed):
            await following
    finally:
        await store.close()
