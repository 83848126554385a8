"""Transactional steps: how they are declared, and what they are in memory and outside any run."""

from __future__ import annotations

import sqlite3

import pytest

import holdfast
from holdfast import AsyncClient, DefinitionError, Worker, step, workflow
from holdfast.testing import Environment, assert_durable
from tests.worker.stage import stage


@step(transaction=True)
def note(db: sqlite3.Connection, text: str) -> int:
    db.execute("CREATE TABLE IF NOT EXISTS notes (text TEXT)")
    db.execute("INSERT INTO notes (text) VALUES (?)", (text,))
    return int(db.execute("SELECT count(*) FROM notes").fetchone()[0])


@workflow
async def noting(text: str) -> list[int]:
    first = note(text)
    await holdfast.sleep("1h")
    return [first, note(text)]


async def test_a_transactional_step_works_in_an_environment():
    async with Environment(workflows=[noting]) as env:
        run = await env.client.start(noting, "a")
        assert await run.result() == [1, 2]
        assert [call.args for call in env.calls(note)] == [("a",), ("a",)]


async def test_a_transactional_step_can_be_stubbed():
    async with Environment(workflows=[noting], stubs={note: 7}) as env:
        assert await (await env.client.start(noting, "a")).result() == [7, 7]


async def test_a_transactional_step_works_in_a_worker_of_its_own():
    @workflow
    async def quick(text: str) -> int:
        return note(text)

    async with AsyncClient("sqlite:///:memory:") as client, Worker(client, workflows=[quick]):
        runs = await client.start_many(quick, [("a",), ("b",)])
        assert sorted([await run.result(timeout=60) for run in runs]) == [1, 2]


def test_crashes_before_and_after_the_commit_of_a_transaction_change_nothing():
    assert_durable(noting, "a")


def test_assert_durable_crashes_at_the_commit_of_a_transaction():
    beside = []

    @step(transaction=True)
    def leaking(db: sqlite3.Connection) -> None:
        beside.append(1)

    @workflow
    async def leaks() -> None:
        leaking()

    with pytest.raises(AssertionError, match="turn 1: started, step_asked leaking, step_completed leaking"):
        assert_durable(leaks, effects=beside)


def test_a_transactional_step_outside_a_run_is_the_plain_function():
    connection = sqlite3.connect(":memory:")
    assert note.fn(connection, "a") == 1
    assert note(connection, "b") == 2
    connection.close()


async def test_an_async_def_is_refused_when_the_worker_starts(database_url):
    @step(transaction=True)
    async def wrong(db: sqlite3.Connection) -> None: ...

    @workflow
    async def order() -> None:
        await wrong()

    with pytest.raises(DefinitionError, match=r"'wrong'.*gets a sqlite3.Connection.*must be `def`"):
        async with stage(database_url, order):
            pass


async def test_a_def_is_refused_when_the_worker_starts(postgres):
    @workflow
    async def order() -> None:
        note("a")

    with pytest.raises(DefinitionError, match=r"'note'.*gets an asyncpg.Connection.*must be `async def`"):
        async with Worker(postgres.create_database(), workflows=[order]):
            pass


def test_a_function_without_parameters_is_refused_where_it_is_declared():
    with pytest.raises(DefinitionError, match="takes a connection first"):

        @step(transaction=True)
        def nothing() -> None: ...
