"""What a step sends is out before its end is recorded, whichever end that is, and goes with its transaction."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from typing import Any

import asyncpg
import pytest

import holdfast
from holdfast import AsyncClient, Worker, emit, set_value, step, workflow
from holdfast.client import AsyncRun
from holdfast.errors import StoreAway, StoreError
from holdfast.model import StepItems
from holdfast.store import SqliteStore, Undone
from tests.worker.bookings import booked
from tests.worker.stage import ONCE, PATIENCE, QUICK, stage, until


async def items(run: AsyncRun[Any], name: str) -> list[tuple[Any, ...]]:
    return [(item.value, item.step, item.attempt, item.reset) async for item in run.stream(name)]


@step(retry=ONCE)
async def failing() -> None:
    set_value("state", "begun")
    raise ValueError("no")


@step(retry=ONCE)
def failing_in_a_thread() -> None:
    set_value("state", "begun")
    raise ValueError("no")


@pytest.mark.parametrize("which", [failing, failing_in_a_thread])
async def test_what_the_body_says_of_a_step_that_failed_is_the_last_word(file, which):
    @workflow
    async def order() -> None:
        try:
            await which.start()
        except ValueError:
            set_value("state", "failed")

    async with stage(file, order) as s:
        run = await s.client.start(order)
        await run.result()
    async with AsyncClient(file) as client:
        # Nothing is under way any more.
        assert await (await client.get_run(run.id)).value("state") == "failed"


async def test_a_step_may_send_to_several_streams_and_values_in_turn(file):
    @step
    async def tell() -> None:
        emit("log", 1)
        emit("words", 2)
        emit("log", 3)
        set_value("log", 4)
        emit("log", 5)

    @workflow
    async def order() -> None:
        await tell()

    async with stage(file, order) as s:
        run = await s.client.start(order)
        await run.result()
        assert [found[0] for found in await items(run, "log")] == [1, 3, 5]
        assert [found[0] for found in await items(run, "words")] == [2]
        assert await run.value("log") == 4


async def test_what_steps_of_several_runs_send_at_once_goes_to_the_run_of_each(file):
    begun: list[int] = []
    all_have = asyncio.Event()

    @step
    async def tell(n: int) -> None:
        begun.append(n)
        if len(begun) == 2:
            all_have.set()
        await all_have.wait()
        emit("log", n)

    @workflow
    async def order(n: int) -> None:
        await tell(n)

    async with stage(file, order) as s:
        runs = [await s.client.start(order, n) for n in (1, 2)]
        for run in runs:
            await run.result()
        assert [[found[0] for found in await items(run, "log")] for run in runs] == [[1], [2]]


async def test_what_can_t_go_out_now_goes_later_and_what_can_never_be_kept_takes_nothing_along(
    file, monkeypatch, caplog
):
    monkeypatch.setattr("holdfast.worker.outbox._PAUSE", 0)
    tried: list[str] = []

    @step
    async def tell() -> None:
        for name in ("odd", "away", "last"):
            set_value(name, name)

    @workflow
    async def order() -> None:
        await tell()

    async with stage(file, order) as s:
        kept = s.store.set_value

        async def set_some(run_id: str, name: str, value: bytes, **given: Any) -> None:
            tried.append(name)
            if name == "odd":
                raise StoreError("no such text")
            if tried.count("away") == 1 and name == "away":
                raise StoreAway("not now")
            await kept(run_id, name, value, **given)

        monkeypatch.setattr(s.store, "set_value", set_some)
        run = await s.client.start(order)
        await run.result()
        assert [await run.value(name, default=None) for name in ("odd", "away", "last")] == [None, "away", "last"]
    assert tried == ["odd", "away", "away", "last"]
    assert "what its step sent as 'odd' could not be kept: no such text" in caplog.text


async def test_a_step_does_not_wait_for_what_others_send_meanwhile(file):
    is_told, is_over = asyncio.Event(), asyncio.Event()

    @step
    async def chatter() -> None:
        while not is_over.is_set():
            emit("log", "and")
            is_told.set()
            await asyncio.sleep(0)

    @step
    async def brief() -> None:
        await is_told.wait()
        set_value("state", "brief")

    @step
    async def hush() -> None:
        is_over.set()

    @workflow
    async def order() -> None:
        talking = chatter.start()
        await brief()
        await hush()
        await talking

    async with stage(file, order) as s:
        run = await s.client.start(order)
        await run.result(PATIENCE)
        assert await run.value("state") == "brief"


async def test_what_a_step_sends_that_its_run_has_left_behind_comes_too_late(file):
    """Its run was claimed again since: as that claim's it would be another execution, and followers start over."""
    may_end, has_ended = asyncio.Event(), asyncio.Event()

    @step
    async def slow() -> None:
        emit("log", "first")
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()
            emit("log", "late")
            set_value("state", "late")
            has_ended.set()

    @step
    async def last() -> None:
        may_end.set()
        await has_ended.wait()
        emit("log", "last")

    @workflow
    async def order() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                await slow()
        await holdfast.sleep("1h")
        await last()

    async with stage(file, order) as s:
        run = await s.client.start(order)

        async def is_over() -> bool:
            s.skip("1h")
            return (await s.record(run)).status.is_final

        await until(is_over)
        assert await items(run, "log") == [("first", "slow", 1, False), ("last", "last", 1, False)]
        assert await run.values() == []


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


async def test_on_sqlite_it_goes_out_with_the_transaction_that_nothing_else_can_be_written_beside(file):
    async with stage(file, noting) as s:
        run = await s.client.start(noting, "a")
        assert await run.result() == 1
        assert booked(file) == ["a"]
        assert await items(run, "log") == [("first", "noted", 1, False), ("second", "noted", 1, False)]
        assert await run.value("state") == "booked"


async def test_what_a_transaction_that_was_rolled_back_sent_is_heard_and_reset_by_the_next_one(file):
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


async def test_what_went_out_with_a_commit_of_which_nobody_knows_is_not_sent_again(file, monkeypatch):
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


async def test_in_memory_it_goes_out_with_the_transaction_too():
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


async def test_what_its_middleware_sends_beforehand_does_not_wait_for_the_transaction(file, monkeypatch):
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


async def test_a_turn_that_comes_while_it_is_on_its_way_does_not_record_a_result_without_its_transaction(postgres):
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
            # The turn of the other step is under way when what was sent goes out.
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


@pytest.mark.parametrize(
    ("count", "size", "most"), [(2_500, 1, 1_000), (5, 600_000, 1), (3, 2_000_000, 1)], ids=["many", "long", "longest"]
)
async def test_a_flood_goes_out_in_writes_that_leave_room_for_others(file, monkeypatch, count, size, most):
    sizes: list[int] = []
    append_items = SqliteStore.append_items

    async def counted(self: SqliteStore, sent: StepItems, *, now: int | None = None) -> None:
        sizes.append(len(sent.payloads))
        await append_items(self, sent, now=now)

    monkeypatch.setattr(SqliteStore, "append_items", counted)

    @step
    async def flood() -> None:
        for number in range(count):
            emit("rows", f"{number}:{'x' * size}")

    @workflow
    async def order() -> None:
        await flood()

    async with stage(file, order) as s:
        run = await s.client.start(order)
        await run.result()
        found = [int(str(item.value).partition(":")[0]) async for item in run.stream("rows")]
    assert found == [*range(count)]
    assert max(sizes) == most
