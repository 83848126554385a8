"""Transactional steps on SQLite hold its write lock: others wait for it, and none holds it for ever."""

from __future__ import annotations

import asyncio
import math
import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from holdfast import AsyncClient, RunFailed, StepTimeout, Worker, current_step, step, workflow
from tests.worker.bookings import book, booked, is_locked
from tests.worker.stage import ONCE, stage, until

ROOT = Path(__file__).parents[2]


async def test_a_transaction_past_its_timeout_is_rolled_back_and_can_write_no_more(file):
    go_on, said = threading.Event(), []

    @step(transaction=True, retry=ONCE)
    def slow(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO bookings (id) VALUES ('a')")
        go_on.wait(30)
        try:
            db.execute("INSERT INTO bookings (id) VALUES ('b')")
        except sqlite3.Error as error:
            said.append(error)

    @workflow
    async def order() -> None:
        slow()

    async with stage(file, order) as s:
        run = await s.client.start(order)
        await until(lambda: is_locked(file))
        # A transaction has five seconds on SQLite.
        s.skip("6s")
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert isinstance(failed.value.__cause__, StepTimeout)
        assert "5s" in str(failed.value.__cause__)
        go_on.set()
        await until(lambda: said)
        assert booked(file) == []


async def test_a_transaction_past_its_timeout_releases_the_lock_even_in_the_middle_of_a_query(file):
    begun, go_on, said = threading.Event(), threading.Event(), []

    @step(transaction=True, retry=ONCE)
    def slow(db: sqlite3.Connection) -> None:
        rows = db.execute("SELECT 1 UNION SELECT 2")
        next(rows)
        db.execute("INSERT INTO bookings (id) VALUES ('a')")
        begun.set()
        said.append(go_on.wait(60))

    @workflow
    async def order() -> None:
        slow()

    async with stage(file, order) as s:
        run = await s.client.start(order)
        await until(begun.is_set)
        s.skip("6s")
        with pytest.raises(RunFailed):
            await run.result()
        go_on.set()
        await until(lambda: said)
        assert said == [True]
        assert booked(file) == []


@step(transaction=True, timeout="30ms", retry=ONCE)
def never_still(db: sqlite3.Connection) -> None:
    """It executes one statement after another, and goes on with that after its timeout."""
    me = current_step()
    deadline = math.inf
    while time.monotonic() < deadline:
        if me.cancelled and deadline == math.inf:
            deadline = time.monotonic() + 0.07
        db.execute(f"SELECT {time.monotonic()}, type, name, tbl_name, rootpage, sql FROM sqlite_master")


@workflow
async def restless() -> str:
    try:
        never_still()
    except StepTimeout:
        return "timed out"
    return "ended"


async def time_out_ten_times(url: str) -> None:
    async with AsyncClient(url) as client, Worker(client, workflows=[restless]):
        for _ in range(10):
            run = await client.start(restless)
            assert await run.result() == "timed out"


@pytest.mark.parametrize("url", ["sqlite:///restless.db", "sqlite:///:memory:"])
def test_a_transaction_that_executes_statements_past_its_timeout_freezes_no_other_thread(url, tmp_path):
    """In a process of its own: a frozen process can't even notice that the test's time is over."""
    code = f"import asyncio; from {__name__} import time_out_ten_times; asyncio.run(time_out_ten_times({url!r}))"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environ, check=True, timeout=60)


async def test_several_transactions_at_once_take_turns(file):
    @step(transaction=True, retry=ONCE)
    def one(db: sqlite3.Connection, name: str) -> str:
        db.execute("INSERT INTO bookings (id) VALUES (?)", (name,))
        return name

    @workflow
    async def order(name: str) -> list[str]:
        return await asyncio.gather(*[one.start(f"{name}{number}") for number in range(5)])

    async with stage(file, order) as s:
        runs = await s.client.start_many(order, [("a",), ("b",), ("c",)])
        assert [await run.result(timeout=60) for run in runs] == [[f"{n}{i}" for i in range(5)] for n in "abc"]
        assert len(booked(file)) == 15


async def test_transactions_that_wait_for_the_lock_do_not_keep_its_holder_from_committing(file):
    """However many wait, and though other code uses up the loop's threads: transactions do not need those."""

    @workflow
    async def order(name: str) -> int:
        return book(name)

    go_on = threading.Event()
    async with stage(file, order) as s:
        loop = asyncio.get_running_loop()
        others = [loop.run_in_executor(None, go_on.wait) for _ in range(40)]
        runs = await s.client.start_many(order, [(f"{number:02}",) for number in range(40)])
        try:
            assert sorted([await run.result(timeout="25s") for run in runs]) == list(range(1, 41))
        finally:
            go_on.set()
            await asyncio.gather(*others)
    assert len(booked(file)) == 40
