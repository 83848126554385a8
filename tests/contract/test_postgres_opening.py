"""Opening a store: whoever gives up does not wait for the server, and what can't be opened is told with what to do."""

import asyncio
import sys
import threading
from types import ModuleType
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from holdfast import AsyncClient, Worker
from holdfast.errors import MisplacedCall, StoreAway, StoreError
from holdfast.store import open_store
from holdfast.store.postgres import connections
from holdfast.testing.contract.stage import new_run
from tests.servers import PgBouncer, execute
from tests.servers.wire import Wire
from tests.worker.samples import ready

NOWHERE = "postgresql://nobody@127.0.0.1:9/nothing"


@pytest.fixture
def url(server):
    server.start()
    return server.create_database()


async def test_an_opening_that_is_given_up_does_not_wait_for_the_server(postgres, monkeypatch):
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


async def test_an_opening_goes_on_though_another_that_waits_for_it_is_given_up(postgres):
    store = open_store(postgres.create_database())
    leaving, staying = (asyncio.create_task(store.open()) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await staying
    assert await store.get_run("nobody") is None
    await store.close()


async def test_the_error_about_a_wrong_password_does_not_show_it(server, url):
    await execute(url, "CREATE ROLE guarded LOGIN PASSWORD 'right'")
    rules = server._data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text("host all guarded 127.0.0.1/32 scram-sha-256\n" + before)
    await execute(url, "SELECT pg_reload_conf()")
    parts = urlsplit(url)
    wrong = urlunsplit(parts._replace(netloc=f"guarded:top-secret@127.0.0.1:{server.port}"))
    try:
        with pytest.raises(StoreError, match="Check the user, the password") as caught:
            await open_store(wrong).open()
        assert not isinstance(caught.value, StoreAway)
        told, text = caught.value, ""
        while told is not None:
            text += f"{told!r} {told}"
            told = told.__cause__ or told.__context__
        assert "top-secret" not in text
    finally:
        rules.write_text(before)
        await execute(url, "SELECT pg_reload_conf()")


async def test_a_database_that_is_not_there_is_named(url):
    with pytest.raises(StoreError, match='"nowhere" does not exist') as caught:
        await open_store(urlunsplit(urlsplit(url)._replace(path="/nowhere"))).open()
    assert not isinstance(caught.value, StoreAway)


async def test_a_server_that_is_not_there_is_away():
    with pytest.raises(StoreAway, match=r"Ask again when the database can be reached; workers go on by themselves"):
        await open_store(NOWHERE).open()


async def test_a_worker_waits_at_its_start_for_a_server_that_is_not_there_yet(server, url, caplog):
    server.stop()
    worker = Worker(url, workflows=[ready])
    working = asyncio.create_task(worker.run())
    while "the store is away" not in caplog.text:
        assert not working.done()
        await asyncio.sleep(0.02)
    # Longer than it takes to try again a few times.
    await asyncio.sleep(0.5)
    server.start()
    async with AsyncClient(url) as client:
        assert await (await client.start(ready)).result(timeout=60) == "ready"
    worker.stop()
    await working
    assert caplog.text.count("the store is away, the worker begins when it is back") == 1
    assert caplog.text.count("the store is back") == 1


@pytest.mark.parametrize("is_silent", [False, True])
async def test_a_worker_that_waits_for_its_server_stops_when_it_is_told_to(postgres, is_silent):
    async with Wire(postgres.create_database()) as wire:
        wire.is_slow = is_silent
        worker = Worker(wire.url if is_silent else NOWHERE, workflows=[ready])
        working = asyncio.create_task(worker.run())
        await asyncio.sleep(0.3)
        assert not working.done()
        worker.stop()
        await asyncio.wait_for(working, 60)


async def test_a_worker_beside_other_code_does_not_wait_for_a_server_that_is_not_there():
    with pytest.raises(StoreAway, match="Ask again when the database can be reached"):
        async with Worker(NOWHERE, workflows=[ready]):
            pass


async def test_a_worker_does_not_wait_for_an_address_that_is_wrong(url):
    nowhere = urlunsplit(urlsplit(url)._replace(path="/nowhere"))
    with pytest.raises(StoreError, match='"nowhere" does not exist'):
        await asyncio.wait_for(Worker(nowhere, workflows=[ready]).run(), 30)
    with pytest.raises(StoreError, match="sslmode"):
        await asyncio.wait_for(Worker(f"{url}?sslmode=maybe", workflows=[ready]).run(), 30)


async def test_a_server_that_is_too_old_is_refused(url, monkeypatch):
    monkeypatch.setattr(asyncpg.Connection, "get_server_version", lambda self: (12, 9))
    with pytest.raises(StoreError, match="13 or later"):
        await open_store(url).open()


async def test_a_database_that_can_not_hold_every_text_is_refused_with_what_to_do(server, url):
    await execute(server.url, "CREATE DATABASE narrow ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(StoreError, match=r"LATIN1, which can't hold every text; name one .* ENCODING 'UTF8'"):
        await open_store(server.url.replace("/postgres", "/narrow")).open()


async def test_a_database_that_takes_no_writes_says_so(url):
    await execute(url, f"ALTER DATABASE {urlsplit(url).path[1:]} SET default_transaction_read_only = on")
    with pytest.raises(StoreAway, match=r"standby, or .* read-only: name the primary; or ask again when"):
        await open_store(url).open()


async def test_a_server_without_the_properties_that_the_url_asks_for_is_reported(url):
    with pytest.raises(
        StoreAway, match=r"no server that answers there is one that target_session_attrs asks for\. Ask"
    ):
        await open_store(f"{url}?target_session_attrs=standby").open()


async def test_an_unknown_option_of_the_url_is_refused_with_the_advice_to_leave_it_out(url):
    unknown = 'parameter "channel_binding". .*: leave this one out$'
    with pytest.raises(StoreError, match=unknown):
        await asyncio.wait_for(Worker(f"{url}?channel_binding=require", workflows=[ready]).run(), 30)


async def test_an_option_that_a_pooler_refuses_is_reported_with_the_advice_to_leave_it_out(url):
    with PgBouncer(url) as pooler:
        worker = Worker(f"{pooler.url_for(url)}?search_path=shop", workflows=[ready])
        with pytest.raises(StoreError, match=r"unsupported startup parameter: search_path\. .*: leave this one out$"):
            await asyncio.wait_for(worker.run(), 30)


async def test_the_error_about_a_missing_file_says_that_it_may_be_a_socket_or_a_certificate(url, tmp_path):
    for missing in (f"postgresql://nobody@/nothing?host={tmp_path}", f"{url}?sslmode=verify-ca&sslrootcert=/nowhere"):
        with pytest.raises(
            StoreAway, match="No such file or directory: a server's socket, or a file with a certificate"
        ):
            await open_store(missing).open()


async def test_opening_works_once_the_reason_of_its_failure_is_gone(server, url):
    store = open_store(url)
    await asyncio.to_thread(server.stop)
    with pytest.raises(StoreAway):
        await store.open()
    await asyncio.to_thread(server.start)
    await store.open()
    assert (await store.start_runs([new_run()]))[0].created
    await store.close()


@pytest.mark.parametrize("package", ["gevent", "eventlet"])
async def test_a_process_whose_threads_are_greenlets_is_refused_with_what_to_do(url, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, ModuleType(package))
    monkeypatch.setattr(threading, "get_native_id", lambda: 1)
    with pytest.raises(MisplacedCall, match=r"greenlets.*--worker-class gthread"):
        await open_store(url).open()


async def test_a_process_that_has_loaded_gevent_and_has_real_threads_is_not_refused(url, monkeypatch):
    monkeypatch.setitem(sys.modules, "gevent", ModuleType("gevent"))
    store = open_store(url)
    await store.open()
    await store.close()
