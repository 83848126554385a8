"""Opening a store whose server does not answer, and giving up: it is not waited for."""

import asyncio
import threading

import pytest

from holdfast.store import open_store
from holdfast.store.postgres import connections
from tests.servers.wire import Wire


async def test_whoever_gives_up_opening_does_not_wait_for_the_server(postgres, monkeypatch):
    # However long a server may take to let anybody in.
    monkeypatch.setattr(connections, "CONNECT_TIMEOUT", 3600)
    threads = set(threading.enumerate())
    async with Wire(postgres.create_database()) as wire:
        wire.is_slow = True
        store = open_store(wire.url)
        opening = asyncio.create_task(store.open())
        while not wire.unanswered:
            await asyncio.sleep(0.01)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert set(threading.enumerate()) <= threads


async def test_whoever_goes_on_opening_is_not_disturbed_by_one_who_gives_up(postgres):
    store = open_store(postgres.create_database())
    leaving, staying = (asyncio.create_task(store.open()) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await staying
    assert await store.get_run("nobody") is None
    await store.close()
