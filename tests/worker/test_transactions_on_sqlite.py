"""Transactional steps on SQLite: what they write to the store's own file and their results are one commit."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

import holdfast
from holdfast import FatalError, RunFailed, step, workflow
from holdfast.model import RunStatus, Turn
from holdfast.store import Undone
from tests.worker.bookings import book, booked, is_locked
from tests.worker.stage import ONCE, PATIENCE, QUICK, stage, until


async def test_the_writes_and_the_result_of_a_transaction_are_committed_together(file):
    @workflow
    async def order(name: str) -> list[int]:
        first = book(name)
        return [first, book(name + "-2")]

    async with stage(file, order) as s:
        run = await s.client.start(order, "a")
        assert await run.result() == [1, 2]
        assert booked(file) == ["a", "a-2"]
        # Two steps are two turns, as they are without transactions.
        assert len(await s.store.read_journal(run.id)) == 2


async def test_a_def_body_calls_a_transactional_step(file):
    @workflow
    def order(name: str) -> int:
        return book(name)

    async with stage(file, order) as s:
        assert await (await s.client.start(order, "a")).result() == 1


async def test_a_transaction_of_a_run_whose_id_contains_quotes_is_committed(file):
    @workflow
    async def order(name: str) -> int:
        return book(name)

    async with stage(file, order) as s:
        run = await s.client.start(order, "a", id='the "first" \\ order')
        assert await run.result() == 1
        assert booked(file) == ["a"]


async def test_a_transaction_whose_failure_is_swallowed_by_middleware_leaves_nothing_written(file):
    @step(transaction=True, retry=ONCE)
    def fail(db: sqlite3.Connection) -> int | None:
        db.execute("INSERT INTO bookings (id) VALUES ('a')")
        raise LookupError

    @workflow
    async def order() -> int | None:
        return fail()

    async with stage(file, order, middleware=[lambda info: suppress(LookupError)]) as s:
        # As with any step whose middleware swallows its error.
        assert await (await s.client.start(order)).result() is None
        assert booked(file) == []


async def test_a_failed_attempt_of_a_transaction_leaves_nothing_written(file):
    tries = []

    @step(transaction=True, retry=QUICK)
    def flaky(db: sqlite3.Connection) -> None:
        tries.append(db.execute("SELECT count(*) FROM bookings").fetchone()[0])
        db.execute("INSERT INTO bookings (id) VALUES ('a')")
        if len(tries) < 3:
            raise ValueError("no")

    @workflow
    async def order() -> None:
        flaky()

    async with stage(file, order) as s:
        run = await s.client.start(order)
        await run.result()
        assert (tries, booked(file)) == ([0, 0, 0], ["a"])
        assert (await s.kinds(run)).count("step_retrying") == 2


async def test_a_result_that_cannot_be_stored_rolls_back_the_writes(file):
    @step(transaction=True, retry=QUICK)
    def odd(db: sqlite3.Connection) -> Any:
        db.execute("INSERT INTO bookings (id) VALUES ('a')")
        return object()

    @workflow
    async def order() -> None:
        odd()

    async with stage(file, order) as s:
        with pytest.raises(RunFailed):
            await (await s.client.start(order)).result()
        assert booked(file) == []


@pytest.mark.parametrize("how", ["commit", "with", "sql", "rollback", "script", "swallowed"])
async def test_a_transactional_step_must_not_end_its_transaction(file, how):
    @step(transaction=True, retry=QUICK)
    def greedy(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO bookings (id) VALUES ('a')")
        if how == "commit":
            db.commit()
        elif how == "with":
            with db:
                pass
        elif how == "sql":
            db.execute("COMMIT")
        elif how == "rollback":
            db.rollback()
        elif how == "script":
            db.executescript("INSERT INTO bookings (id) VALUES ('b');")
        else:
            try:
                db.commit()
            except sqlite3.DatabaseError:
                pass

    @workflow
    async def order() -> None:
        greedy()

    async with stage(file, order) as s:
        run = await s.client.start(order)
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert isinstance(failed.value.__cause__, FatalError)
        assert "greedy" in str(failed.value.__cause__)
        assert "commits it together with the step's result" in str(failed.value.__cause__)
        assert booked(file) == []


async def test_a_savepoint_may_be_used(file):
    @step(transaction=True, retry=ONCE)
    def careful(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO bookings (id) VALUES ('a')")
        db.execute("SAVEPOINT mine")
        db.execute("INSERT INTO bookings (id) VALUES ('b')")
        db.execute("ROLLBACK TO mine")
        db.execute("RELEASE mine")

    @workflow
    async def order() -> None:
        careful()

    async with stage(file, order) as s:
        await (await s.client.start(order)).result()
        assert booked(file) == ["a"]


async def test_results_that_come_during_a_transaction_wait_for_the_next_turn(file):
    begun = threading.Event()
    others = []

    @step
    async def other(number: int) -> int:
        await asyncio.to_thread(begun.wait, PATIENCE)
        others.append(number)
        return number

    @step(transaction=True, retry=ONCE, timeout=PATIENCE)
    def booking(db: sqlite3.Connection) -> int:
        db.execute("INSERT INTO bookings (id) VALUES ('a')")
        begun.set()
        deadline = time.monotonic() + PATIENCE
        while len(others) < 3 and time.monotonic() < deadline:
            time.sleep(0.001)
        return 10

    @workflow
    async def order() -> list[int]:
        pending = [other.start(number) for number in range(3)]
        first = booking()
        return [first, *await asyncio.gather(*pending)]

    async with stage(file, order) as s:
        assert await (await s.client.start(order)).result(timeout=60) == [10, 0, 1, 2]
        assert booked(file) == ["a"]


async def test_a_cancelled_run_rolls_its_step_back(file):
    go_on = threading.Event()

    @step(transaction=True, retry=ONCE)
    def slow(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO bookings (id) VALUES ('a')")
        go_on.wait(20)

    @workflow
    async def order() -> None:
        slow()

    async with stage(file, order) as s:
        run = await s.client.start(order)
        await until(lambda: is_locked(file))
        cancelling = asyncio.create_task(s.client.cancel(run.id))
        go_on.set()
        await cancelling
        assert await run.wait() in (RunStatus.CANCELLED, RunStatus.COMPLETED)
        assert booked(file) == (["a"] if run.status is RunStatus.COMPLETED else [])


async def test_a_turn_whose_place_in_the_journal_is_taken_rolls_back_the_writes(file):
    @workflow
    async def order() -> int:
        return book("a")

    async with stage(file) as s:
        run = await s.client.start(order)
        await s.client._connection.opened()
        lender = s.store.lender(30_000_000)
        loan = lender.lend()
        await loan.begin()
        loan.connection.execute("INSERT INTO bookings (id) VALUES ('a')")
        await loan.end()
        turn = Turn(run_id=run.id, seq=0, epoch=1, at=0, data=b"[]")
        assert await s.store.commit_turns([turn]) == [True]
        for epoch in (1, 2):
            loan = lender.lend()
            await loan.begin()
            loan.connection.execute("INSERT INTO bookings (id) VALUES ('a')")
            assert await loan.commit(Turn(run_id=run.id, seq=0, epoch=epoch, at=0, data=b"[]"), now=None) is False
            await loan.end()
        assert booked(file) == []


async def test_a_step_whose_commit_did_not_happen_is_executed_again(file, monkeypatch):
    @workflow
    async def order() -> list[int]:
        first = book("a")
        return [first, book("b")]

    async with stage(file, order) as s:
        found = type(s.store.lender(1).lend())
        original, fates = found.commit, [Undone("on purpose"), Undone("nobody knows", is_certain=False)]

        async def commit(self, turn, *, now):
            return fates.pop() if fates else await original(self, turn, now=now)

        monkeypatch.setattr(found, "commit", commit)
        run = await s.client.start(order)

        async def is_over() -> bool:
            s.skip("1s")
            return (await s.record(run)).status.is_final

        await until(is_over)
        assert await run.result() == [1, 2]
        assert (fates, booked(file)) == ([], ["a", "b"])


@pytest.mark.parametrize("is_certain", [True, False], ids=["it did not happen", "nobody knows"])
async def test_a_commit_that_may_still_happen_is_fenced_out_by_the_next_claim(file, monkeypatch, is_certain):
    @workflow
    async def order() -> int:
        return book("a")

    async with stage(file, order) as s:
        found = type(s.store.lender(1).lend())
        original, fates = found.commit, [Undone("on purpose", is_certain=is_certain)]

        async def commit(self, turn, *, now):
            return fates.pop() if fates else await original(self, turn, now=now)

        monkeypatch.setattr(found, "commit", commit)
        run = await s.client.start(order)

        async def is_over() -> bool:
            s.skip("1s")
            return (await s.record(run)).status.is_final

        await until(is_over)
        assert (await s.kinds(run)).count("claimed") == (0 if is_certain else 1)
        assert booked(file) == ["a"]


async def test_commits_with_an_unknown_outcome_are_no_crashes(file, monkeypatch):
    @workflow(max_crashes=1)
    async def order() -> int:
        return book("a")

    async with stage(file, order) as s:
        found = type(s.store.lender(1).lend())
        original, fates = found.commit, [Undone("nobody knows", is_certain=False)] * 4
        crashes = set()

        async def commit(self, turn, *, now):
            return fates.pop() if fates else await original(self, turn, now=now)

        monkeypatch.setattr(found, "commit", commit)
        run = await s.client.start(order)

        async def is_over() -> bool:
            s.skip("1s")
            record = await s.record(run)
            crashes.add(record.crashes)
            return record.status.is_final

        await until(is_over)
        assert await run.result() == 1
        assert (await s.kinds(run)).count("claimed") == 4
        assert crashes == {0}


async def test_a_body_that_is_blocked_by_the_result_leaves_nothing_written(file):
    executed = []

    @step(transaction=True, retry=ONCE)
    def booking(db: sqlite3.Connection) -> None:
        executed.append(1)
        db.execute("INSERT INTO bookings (id) VALUES ('a')")

    @workflow
    async def order() -> None:
        booking()
        await asyncio.to_thread(print)

    async with stage(file, order) as s:
        run = await s.client.start(order)
        assert "IOInBody" in await s.until_blocked(run)
        # The result could not be taken in, so neither it nor the write is there: the step will execute again.
        assert (booked(file), "step_completed" in await s.kinds(run)) == ([], False)


async def test_a_worker_that_stops_rolls_back_transactions_under_way(file):
    go_on = threading.Event()

    @step(transaction=True, retry=ONCE)
    def slow(db: sqlite3.Connection) -> str:
        db.execute("INSERT INTO bookings (id) VALUES ('a')")
        go_on.wait(20)
        return "done"

    @workflow
    async def order() -> str:
        return slow()

    async with stage(file) as s:
        run = await s.client.start(order)
        async with s.worker(order, grace=0):
            await until(lambda: is_locked(file))
        assert booked(file) == []
        go_on.set()
        async with s.worker(order):
            assert await run.result(timeout=60) == "done"
        assert (booked(file), (await s.record(run)).crashes) == (["a"], 0)


async def test_a_run_that_a_transactional_step_starts_is_part_of_its_transaction(file):
    @workflow
    async def ship(name: str) -> str:
        return name

    @step(transaction=True, retry=QUICK)
    def hand_over(db: sqlite3.Connection, name: str) -> str:
        db.execute("INSERT INTO bookings (id) VALUES (?)", (name,))
        return blocking.start(ship, name, key=name, connection=db).id

    @workflow
    async def order(name: str) -> str:
        return hand_over(name)

    with holdfast.Client(file) as blocking:
        async with stage(file, order, ship) as s:
            child = await (await s.client.start(order, "a")).result()
            assert await (await s.client.get_run(child)).result() == "a"
