"""A client's life: made without I/O, opened once when it is needed, closed once."""

from __future__ import annotations

import asyncio
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import PostgresDsn

from holdfast import Worker, step, workflow
from holdfast.client import AsyncClient, Client
from holdfast.client.connections import Connection
from holdfast.codec import Codec, Zstd
from holdfast.errors import ClientClosed, DefinitionError, PayloadTooLarge, RunFailed, StoreAway, StoreError
from holdfast.model import RunFilter
from holdfast.store import open_store
from tests.client.hands import Hands, total


def test_making_a_client_does_no_io_and_needs_no_loop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    threads = set(threading.enumerate())
    client = AsyncClient()
    assert client.url == "sqlite:///holdfast.db"
    assert client.namespace == "default"
    assert isinstance(client.codec, Codec)
    assert client.store is client.store
    assert list(tmp_path.iterdir()) == []
    assert set(threading.enumerate()) <= threads


def test_settings_are_read_when_they_are_needed_not_when_the_client_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    client = AsyncClient()
    monkeypatch.setenv("HOLDFAST_URL", "sqlite:///later.db")
    monkeypatch.setenv("HOLDFAST_NAMESPACE", "shop")
    assert (client.url, client.namespace) == ("sqlite:///later.db", "shop")


def test_wrong_arguments_of_a_client_are_refused_when_it_is_made():
    for options in ({"namespace": ""}, {"max_payload": 0}, {"codec": "json"}):
        with pytest.raises(DefinitionError):
            AsyncClient("sqlite:///x.db", **options)
    for url in ("orders.db", 5):
        with pytest.raises(DefinitionError, match="expected the address of a database"):
            AsyncClient(url)


@pytest.mark.parametrize("maker", [Client, AsyncClient, partial(Worker, workflows=[])])
def test_a_url_that_is_no_text_is_refused_without_showing_its_password(maker):
    dsn = PostgresDsn("postgresql://shop:secret@db.example.com/orders")
    with pytest.raises(DefinitionError, match=r"PostgresDsn.*str\(url\)") as refused:
        maker(dsn)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("codec", "given", "setting", "limit"),
    [
        (None, None, None, 4 * 1024 * 1024),
        (Codec(), None, None, 4 * 1024 * 1024),
        (Codec(), 30, None, 30),
        (Codec(max_payload=20), 30, None, 30),
        (Codec(max_payload=20), None, "40", 20),
        (Codec(), None, "40", 40),
        (Codec(), 30, "40", 30),
    ],
)
def test_max_payload_comes_from_the_codec_then_the_client_then_the_settings(monkeypatch, codec, given, setting, limit):
    if setting is not None:
        monkeypatch.setenv("HOLDFAST_MAX_PAYLOAD", setting)
    client = AsyncClient("sqlite:///:memory:", codec=codec, max_payload=given)
    assert client.codec.max_payload == limit
    with pytest.raises(PayloadTooLarge, match=f"more than the limit of {limit:,}"):
        client.codec.value(str).encode("x" * limit)


def test_a_limit_given_to_a_client_changes_nothing_else_of_its_codec():
    codec = Codec(chain=[Zstd(threshold=0)], pickle=True)
    long = codec.value(str).encode("x" * 100)
    limited = AsyncClient("sqlite:///:memory:", codec=codec, max_payload=70).codec
    assert limited.value(str).encode("x" * 60)[:1] == b"\0"
    assert limited.value(Any).decode(limited.value(Any).encode(...)) is ...
    # What was stored by another limit can be read, and the codec that was given is as it was.
    assert limited.value(str).decode(long) == "x" * 100
    assert codec.value(str).encode("x" * 100) == long


async def test_a_worker_with_its_own_codec_keeps_to_the_limit_of_the_settings(tmp_path, monkeypatch):
    @step
    def write(size: int) -> str:
        return "x" * size

    @workflow
    async def letter(size: int) -> str:
        return write(size)

    url = f"sqlite:///{tmp_path}/letters.db"
    async with AsyncClient(url) as client:
        runs = [await client.start(letter, size) for size in (10, 200)]
        monkeypatch.setenv("HOLDFAST_MAX_PAYLOAD", "100")
        await Worker(url, workflows=[letter], codec=Codec()).drive()
        assert await runs[0].result(timeout=0) == "x" * 10
        with pytest.raises(RunFailed, match="more than the limit of 100"):
            await runs[1].result(timeout=0)


def test_a_schema_is_refused_by_a_store_without_schemas():
    with pytest.raises(DefinitionError, match="schema"):
        AsyncClient("sqlite:///x.db", schema="app")


def test_a_url_that_names_no_store_is_refused_when_the_client_is_made():
    with pytest.raises(DefinitionError, match="there is no store for mysql://"):
        AsyncClient("mysql://shop@db/shop")


def test_printing_a_client_works_with_wrong_settings_and_fixes_none_of_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    client = AsyncClient()
    monkeypatch.setenv("HOLDFAST_URL", "nowhere")
    assert repr(client).startswith("<AsyncClient without a database: the environment variable HOLDFAST_URL")
    monkeypatch.setenv("HOLDFAST_URL", "sqlite:///later.db")
    assert repr(client) == "<AsyncClient sqlite:///later.db>"
    monkeypatch.setenv("HOLDFAST_SCHEMA", "app")
    assert repr(client) == "<AsyncClient sqlite:///later.db>"


async def test_a_client_that_may_not_migrate_refuses_an_old_database_and_leaves_it_alone(tmp_path):
    with pytest.raises(StoreError):
        async with AsyncClient(f"sqlite:///{tmp_path / 'x.db'}", migrate=False):
            pass
    assert not (tmp_path / "x.db").exists()


async def test_many_first_calls_at_once_open_the_store_once(client, monkeypatch):
    opened = []
    store = client.store
    open_it = store.open

    async def counted() -> None:
        opened.append(1)
        await asyncio.sleep(0)
        await open_it()

    monkeypatch.setattr(store, "open", counted)
    await asyncio.gather(*(client.start(total, n) for n in range(10)))
    assert opened == [1]


async def test_a_cancelled_call_that_was_opening_the_store_does_not_disturb_the_others(client):
    first = asyncio.create_task(client.start(total, 1))
    second = asyncio.create_task(client.start(total, 2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).created
    assert first.cancelled()


async def test_the_next_call_opens_the_store_after_an_opening_was_cancelled_with_all_its_tasks(client):
    first = asyncio.ensure_future(client.workers())
    # Two turns of the loop: the call begins, and then the opening that it asks for.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.wait([first])
    assert first.cancelled()
    assert await client.workers() == []


async def test_the_next_call_tries_again_to_open_a_store_that_could_not_be_opened(tmp_path):
    folder = tmp_path / "later"
    client = AsyncClient(f"sqlite:///{folder}/orders.db")
    with pytest.raises(StoreAway):
        await client.start(total, 1)
    folder.mkdir()
    assert (await client.start(total, 1)).created
    await client.close()


async def test_a_closed_client_says_so(client):
    await client.start(total, 1)
    await client.close()
    await client.close()
    with pytest.raises(ClientClosed, match="make another one"):
        await client.start(total, 1)


async def test_a_store_that_was_given_is_used_and_left_open(database_url):
    store = open_store(database_url, namespace="shop")
    await store.open()
    async with AsyncClient(store) as client:
        assert client.store is store
        assert client.namespace == "shop"
        run = await client.start(total, 1)
    assert (await store.get_run(run.id)).id == run.id
    await store.close()


def test_a_store_that_was_given_brings_its_own_namespace(database_url):
    store = open_store(database_url, namespace="shop")
    assert AsyncClient(store, namespace="shop").namespace == "shop"
    with pytest.raises(DefinitionError, match="namespace= belongs to the store"):
        AsyncClient(store, namespace="other")


def test_one_client_may_serve_one_loop_after_another(database_url):
    client = AsyncClient(database_url)
    hands = Hands(client)

    async def once(n: int) -> int:
        run = await client.start(total, n)
        waiting = asyncio.create_task(run.result(timeout="60s"))
        await asyncio.sleep(0)
        await hands.complete(run.id, n)
        return await waiting

    assert [asyncio.run(once(n)) for n in range(3)] == [0, 1, 2]
    asyncio.run(client.close())


async def test_a_database_in_memory_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with AsyncClient("sqlite:///:memory:") as client:
        run = await client.start(total, 1)
        await Hands(client).complete(run.id, 3)
        assert await run.result() == 3
    assert list(tmp_path.iterdir()) == []


async def test_a_process_made_by_fork_opens_a_store_of_its_own(database_url, monkeypatch):
    connection = Connection(
        database_url, namespace=None, codec=None, schema=None, max_payload=None, migrate=None
    )  # fmt: skip
    before = await connection.opened()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    after = await connection.opened()
    assert after is not before
    await after.close()
    monkeypatch.undo()
    await before.close()


async def test_a_database_in_memory_does_not_survive_a_fork(monkeypatch):
    async with AsyncClient("sqlite:///:memory:") as client:
        await client.start(total, 1)
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(StoreError, match="make the client after the fork"):
            await client.start(total, 1)
        monkeypatch.undo()


async def test_a_client_prints_without_a_password(database_url):
    assert repr(AsyncClient(database_url)) == f"<AsyncClient {database_url}>"


async def test_a_database_that_goes_away_is_an_error_with_advice(client, database_url):
    await client.start(total, 1)
    Path(database_url.removeprefix("sqlite:///")).unlink()

    async def until_it_is_noticed() -> None:
        while True:
            await client.start(total, 2)
            await asyncio.sleep(0.01)

    with pytest.raises(StoreAway, match=r"holdfast\.db"):
        await asyncio.wait_for(until_it_is_noticed(), 60)


async def test_a_client_that_is_closed_while_it_opens_leaves_no_store_open(database_url):
    client = AsyncClient(database_url)
    starting = asyncio.create_task(client.start(total, 1))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(ClientClosed):
        await starting
    with pytest.raises(StoreError, match="is not open"):
        await client.store.get_run("nobody")


@pytest.mark.parametrize("turns", range(1, 6))
async def test_a_client_that_is_cancelled_while_it_is_entered_leaves_no_store_open(database_url, turns):
    client = AsyncClient(database_url)
    entering = asyncio.create_task(client.__aenter__())
    for _ in range(turns):
        await asyncio.sleep(0)
    assert entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    # Others might need what it has begun to open, so that comes to its end.
    if (opening := client._connection._opening) is not None:
        await opening
    with pytest.raises(StoreError, match="is not open"):
        await client.store.get_run("nobody")


@pytest.mark.parametrize(
    "ask",
    [
        lambda client, _: client.start(total, 1),
        lambda client, run_id: client.signal(run_id, "go"),
        lambda client, _: client.publish("go"),
        lambda client, _: client.count(RunFilter()),
    ],
    ids=["start", "signal", "publish", "count"],
)
async def test_a_call_under_way_when_its_client_is_closed_raises_that_it_was_closed(database_url, ask):
    # At whichever point: from its beginning to what it asks of the store there may be several turns of the loop.
    told = 0
    for turns in range(12):
        client = AsyncClient(database_url)
        run = await client.start(total, 1)
        asking = asyncio.create_task(ask(client, run.id))
        for _ in range(turns):
            await asyncio.sleep(0)
        await client.close()
        try:
            await asking
        except ClientClosed:
            told += 1
    assert told


async def test_a_client_whose_close_is_cut_short_leaves_no_store_open(database_url):
    """As by anyio, which cancels whatever is waited for in a scope that was cancelled."""
    with anyio.CancelScope() as scope:
        async with AsyncClient(database_url) as client:
            await client.start(total, 1)
            scope.cancel()
    with pytest.raises(StoreError, match="is not open"):
        await client.store.get_run("nobody")
    await client.store._closing
