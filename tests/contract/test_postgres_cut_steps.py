"""Connections of transactional steps that are cut or can't be written to: the store's trouble, not the step's."""

import asyncio
import contextlib
import logging
from itertools import count
from types import SimpleNamespace

import asyncpg
import pytest

import holdfast
from holdfast import Retry, RunFailed, step, workflow
from holdfast.errors import StoreAway
from holdfast.store.postgres.loans import PostgresLoan
from holdfast.testing.contract.stage import until
from holdfast.worker import attempts
from tests.servers import execute, fetch

ONCE = Retry(attempts=1)


@pytest.fixture
def url(postgres):
    url = postgres.create_database()
    asyncio.run(execute(url, "CREATE TABLE effects (number integer)"))
    return url


async def cut(url, db):
    """End the backend behind a connection, as a server does that is restarted."""
    await fetch(url, "SELECT pg_terminate_backend($1)", db.get_server_pid())


async def test_a_function_whose_connection_is_cut_is_called_again_and_no_attempt_is_used_up(url, caplog):
    called = []

    @step(transaction=True, retry=ONCE, timeout="30s")
    async def put(db: asyncpg.Connection, number: int) -> int:
        called.append(holdfast.current_step().attempt)
        await db.execute("INSERT INTO effects (number) VALUES ($1)", number)
        if len(called) < 3:
            await cut(url, db)
            await db.execute("INSERT INTO effects (number) VALUES ($1)", -number)
        return number

    @workflow
    async def putting() -> int:
        return await put(7)

    caplog.set_level(logging.INFO)
    async with holdfast.AsyncClient(url) as client, holdfast.Worker(client, workflows=[putting]):
        run = await client.start(putting)
        assert await run.result(timeout=60) == 7
        kinds = [entry.kind for entry in await client.journal(run.id)]
    assert called == [1, 1, 1]
    assert "step_retrying" not in kinds
    assert await fetch(url, "SELECT number FROM effects") == [(7,)]
    assert any("has lost its connection and executes again" in record.getMessage() for record in caplog.records)


async def test_a_connection_cut_after_the_function_has_returned_uses_up_no_attempt(url):
    called = []

    @step(transaction=True, retry=ONCE)
    async def put(db: asyncpg.Connection) -> int:
        called.append(1)
        await db.execute("INSERT INTO effects (number) VALUES (1)")
        if len(called) == 1:
            await cut(url, db)
        return 1

    @workflow
    async def putting() -> int:
        return await put()

    async with holdfast.AsyncClient(url) as client, holdfast.Worker(client, workflows=[putting]):
        run = await client.start(putting)
        assert await run.result(timeout=60) == 1
    assert await fetch(url, "SELECT number FROM effects") == [(1,)]


async def test_a_function_that_closes_its_connection_itself_fails_in_the_end(url):
    called = []

    @step(transaction=True, retry=ONCE)
    async def put(db: asyncpg.Connection) -> int:
        called.append(1)
        await db.close()
        return await db.fetchval("SELECT 1")

    @workflow
    async def putting() -> int:
        return await put()

    async with holdfast.AsyncClient(url) as client, holdfast.Worker(client, workflows=[putting]):
        run = await client.start(putting)
        with pytest.raises(RunFailed, match="closed"):
            await run.result(timeout=60)
    assert len(called) == 6


async def test_a_connection_cut_by_the_server_s_idle_timeout_fails_the_step_with_the_reason(url, monkeypatch):
    monkeypatch.setattr("holdfast.store.postgres.loans.time", SimpleNamespace(monotonic=count(0, 3_600).__next__))

    @step(transaction=True, retry=ONCE)
    async def put(db: asyncpg.Connection) -> int:
        await cut(url, db)
        return await db.fetchval("SELECT 1")

    @workflow
    async def putting() -> int:
        return await put()

    async with holdfast.AsyncClient(url) as client, holdfast.Worker(client, workflows=[putting]):
        run = await client.start(putting)
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout=60)
    assert "nothing is executed for as long as the worker's lease" in "".join(failed.value.__cause__.__notes__)


async def test_a_cut_function_that_has_emitted_items_fails_and_its_next_attempt_resets_them(url):
    @step(transaction=True, retry=Retry(attempts=2, initial="0.01s"))
    async def put(db: asyncpg.Connection) -> int:
        holdfast.emit("said", holdfast.current_step().attempt)
        if holdfast.current_step().attempt == 1:
            await cut(url, db)
        return await db.fetchval("SELECT 1")

    @workflow
    async def putting() -> int:
        return await put()

    async with holdfast.AsyncClient(url) as client, holdfast.Worker(client, workflows=[putting]):
        run = await client.start(putting)
        assert await run.result(timeout=60) == 1
        items = [(item.value, item.attempt, item.reset) async for item in run.stream("said")]
    assert items == [(1, 1, False), (2, 2, True)]


async def test_a_function_waits_while_its_database_is_read_only_and_no_attempt_is_used_up(url, monkeypatch):
    called, refused = [], []
    begin = PostgresLoan.begin

    async def begun(loan):
        try:
            await begin(loan)
        except StoreAway as error:
            refused.append(str(error))
            raise

    @step(transaction=True, retry=ONCE)
    async def put(db: asyncpg.Connection, number: int) -> int:
        called.append(holdfast.current_step().attempt)
        await db.execute("INSERT INTO effects (number) VALUES ($1)", number)
        return number

    [(name,)] = await fetch(url, "SELECT current_database()")

    @step
    async def shut(is_shut: bool) -> None:
        # As a server does whose disk is nearly full, or the one that a name leads to until a standby takes over.
        if is_shut:
            await execute(url, f"ALTER DATABASE {name} SET default_transaction_read_only = on")

    @workflow
    async def putting() -> int:
        # It holds for connections that are made from then on: those over which turns are committed are there by then.
        for is_shut in (False, True):
            await shut(is_shut)
        return await put(7)

    monkeypatch.setattr(PostgresLoan, "begin", begun)
    async with holdfast.AsyncClient(url) as client, holdfast.Worker(client, workflows=[putting]):
        run = await client.start(putting)
        assert await until(lambda: bool(refused or called))
        admin = await asyncpg.connect(url, server_settings={"default_transaction_read_only": "off"})
        await admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        await admin.close()
        assert await run.result(timeout=60) == 7
    assert called == [1]
    assert "read-only" in refused[0]


async def test_locks_of_an_abandoned_attempt_are_free_for_the_next_one(url, monkeypatch):
    monkeypatch.setattr(attempts, "_LINGER", 0)
    is_over, locked = asyncio.Event(), []

    # A slow machine may need several attempts to get the lock in time. One that nobody gives back is never got.
    @step(transaction=True, retry=Retry(attempts=100, initial=0, jitter=0), timeout="2s")
    async def stubborn(db: asyncpg.Connection) -> int:
        await db.execute("SELECT pg_advisory_xact_lock(7)")
        attempt = holdfast.current_step().attempt
        locked.append(attempt)
        while attempt == locked[0] and not is_over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await is_over.wait()
        return attempt

    @workflow
    async def locking() -> int:
        return await stubborn()

    async with holdfast.AsyncClient(url) as client, holdfast.Worker(client, workflows=[locking]):
        try:
            result = await (await client.start(locking)).result(timeout=60)
            assert locked[0] < result
        finally:
            is_over.set()


async def test_locks_of_a_cancelled_step_are_free_although_its_function_goes_on(url, monkeypatch):
    monkeypatch.setattr(attempts, "_LINGER", 0)
    is_locked, is_over = asyncio.Event(), asyncio.Event()

    @step(transaction=True)
    async def locks(db: asyncpg.Connection, is_stubborn: bool) -> str:
        await db.execute("SELECT pg_advisory_xact_lock(7)")
        is_locked.set()
        while is_stubborn and not is_over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await is_over.wait()
        return "has it"

    @workflow
    async def locking(is_stubborn: bool) -> str:
        return await locks(is_stubborn)

    async with holdfast.AsyncClient(url) as client, holdfast.Worker(client, workflows=[locking]):
        try:
            run = await client.start(locking, True)
            await is_locked.wait()
            await run.cancel()
            assert await run.wait(timeout=60) == "cancelled"
            assert await (await client.start(locking, False)).result(timeout=60) == "has it"
        finally:
            is_over.set()
