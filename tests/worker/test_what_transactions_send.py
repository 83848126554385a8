"""What a transactional step sends is written with its transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg

import holdfast
from holdfast import AsyncClient, Worker, emit, set_value, step, workflow
from holdfast.store import Undone
from tests.worker.bookings import booked
from tests.worker.stage import ONCE, PATIENCE, QUICK, items, stage, until


@step(transaction=True, retry=QUICK)
def noted(db: sqlite3.Connection, name: str, failures: int = 0) -> int:
    db.execute("INSERT INTO bookings (id) VALUES (?)", (name,))
    attempt = holdfast.current_step().attempt
    emit("log", "first")
    emit("log", "second")
    set_value("state", "booking")
    if attempt <= failures:
        raise ValueError("no")
    return attempt


@workflow
async def noting(name: str, failures: int = 0) -> int:
    found = noted(name, failures)
    set_value("state", "booked")
    return found


async def test_items_of_a_transactional_step_on_sqlite_are_sent_with_its_commit(file):
    async with stage(file, noting) as s:
        run = await s.client.start(noting, "a")
        assert await run.result() == 1
        assert booked(file) == ["a"]
        assert await items(run, "log") == [("first", "noted", 1, False), ("second", "noted", 1, False)]
        assert await run.value("state") == "booked"


async def test_items_of_a_transaction_that_was_rolled_back_are_sent_and_reset_by_the_next_attempt(file):
    async with stage(file, noting) as s:
        run = await s.client.start(noting, "a", 1)
        assert await run.result() == 2
        sent = await items(run, "log")
        assert sent == [
            ("first", "noted", 1, False),
            ("second", "noted", 1, False),
            ("first", "noted", 2, True),
            ("second", "noted", 2, False),
        ]


async def test_a_transactional_step_on_sqlite_does_not_wait_for_what_other_steps_send_meanwhile(file):
    """Their items wait for the write lock, and its transaction has that."""
    has_begun, has_sent = threading.Event(), threading.Event()

    @step(retry=ONCE)
    async def talking() -> None:
        await until(has_begun.is_set)
        emit("log", "of the other")
        has_sent.set()

    @step(transaction=True, retry=ONCE)
    def writing(db: sqlite3.Connection) -> None:
        has_begun.set()
        assert has_sent.wait(PATIENCE)
        emit("log", "of the transaction")

    @workflow
    async def order() -> None:
        other = talking.start()
        writing()
        await other

    async with stage(file, order) as s:
        run = await s.client.start(order)
        await run.result(PATIENCE)
        assert sorted(value for value, *_ in await items(run, "log")) == ["of the other", "of the transaction"]


async def test_items_sent_with_a_commit_whose_answer_was_lost_are_not_sent_again(file, monkeypatch):
    @workflow
    async def order() -> int:
        found = noted("a")
        await holdfast.sleep("1h")
        return found

    async with stage(file, order) as s:
        loan = type(s.store.lender(1).lend())
        commit, lost = loan.commit, []

        async def losing(self: Any, turn: Any, *, now: Any) -> Any:
            answer = await commit(self, turn, now=now)
            lost.append(answer)
            return Undone("the answer was lost", is_certain=False)

        monkeypatch.setattr(loan, "commit", losing)
        run = await s.client.start(order)

        async def is_over() -> bool:
            if lost:  # Not while the transaction is under way, which has a timeout.
                s.skip("1h")
            return (await s.record(run)).status.is_final

        await until(is_over)
        assert (await run.result(), lost) == (1, [True])
        assert [value for value, *_ in await items(run, "log")] == ["first", "second"]


async def test_items_of_a_transactional_step_in_memory_are_sent_with_its_commit():
    @step(transaction=True, retry=ONCE)
    def alone(db: sqlite3.Connection) -> None:
        emit("log", "said")

    @workflow
    async def order() -> None:
        alone()

    async with AsyncClient("sqlite:///:memory:") as client, Worker(client, workflows=[order]):
        run = await client.start(order)
        await run.result(timeout=60)
        assert await items(run, "log") == [("said", "alone", 1, False)]


async def test_items_that_middleware_sends_before_a_transactional_step_are_sent_before_it_begins(file, monkeypatch):
    class Saying:
        def __init__(self, info: Any) -> None: ...

        def __enter__(self) -> None:
            emit("log", "before")

        def __exit__(self, *_: object) -> None:
            emit("log", "after")

    begun: list[int] = []
    has_begun: list[bool] = []

    @step(transaction=True, retry=ONCE)
    def said(db: sqlite3.Connection) -> None:
        begun.append(1)
        emit("log", "first")
        emit("log", "second")

    @workflow
    async def saying() -> None:
        said()

    async with stage(file, saying, middleware=[Saying]) as s:
        append = s.store.append_items

        async def slowly(*args: Any, **given: Any) -> None:
            for _ in range(3_000):  # One that does not wait for this has begun by then.
                await asyncio.sleep(0)
            has_begun.append(bool(begun))
            await append(*args, **given)

        monkeypatch.setattr(s.store, "append_items", slowly)
        run = await s.client.start(saying)
        await run.result(PATIENCE)
        assert has_begun == [False]
        assert [value for value, *_ in await items(run, "log")] == ["before", "first", "second", "after"]


async def test_what_a_transactional_step_has_sent_is_out_before_its_run_learns_that_its_middleware_failed(file):
    @contextmanager
    def failing(info: Any) -> Iterator[None]:
        yield
        raise ConnectionError

    @step(transaction=True, retry=ONCE)
    def said(db: sqlite3.Connection) -> None:
        set_value("state", "of the step")

    @workflow
    async def saying() -> None:
        try:
            said()
        except ConnectionError:
            set_value("state", "of the body")

    async with stage(file, saying, middleware=[failing]) as s:
        run = await s.client.start(saying)
        await run.result(PATIENCE)
        assert await run.value("state") == "of the body"


async def test_a_turn_during_the_sending_of_items_does_not_record_a_result_without_its_transaction(postgres):
    url = postgres.create_database()
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE bookings (id text PRIMARY KEY)")
    is_flushing, may_append, may_commit = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @step(transaction=True, retry=ONCE)
    async def put(db: asyncpg.Connection) -> None:
        await db.execute("INSERT INTO bookings (id) VALUES ('a')")
        emit("log", "put")

    @step
    async def beside() -> None:
        await is_flushing.wait()

    @workflow
    async def order() -> None:
        await asyncio.gather(put(), beside())

    async with AsyncClient(url) as client, Worker(client, workflows=[order]) as worker:
        store, outbox = client.store, worker._session.runs.attempts.outbox
        append, commit, flush = store.append_items, store.commit_turns, outbox.flush

        async def appending(*args: Any, **options: Any) -> None:
            await may_append.wait()
            await append(*args, **options)

        async def committing(*args: Any, **options: Any) -> Any:
            # The turn of the other step is under way when the items are sent.
            may_append.set()
            await may_commit.wait()
            return await commit(*args, **options)

        async def flushing() -> None:
            is_flushing.set()
            await flush()
            asyncio.get_running_loop().call_later(0.05, may_commit.set)

        store.append_items, store.commit_turns, outbox.flush = appending, committing, flushing  # type: ignore[method-assign]
        run = await client.start(order)
        await run.result(timeout=60)
    assert await connection.fetchval("SELECT count(*) FROM bookings") == 1
    await connection.close()
