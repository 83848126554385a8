"""Transactional steps in a Postgres whose owner has set other defaults: transactions that see nothing younger than they
are, and commits that are answered before they are durable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

import holdfast
from holdfast import AsyncClient, Worker, step, workflow
from holdfast.model import ClaimedRun
from holdfast.store import Undone, open_store
from holdfast.testing.contract.stage import LANE, LEASE, T0, Stage, turn
from tests.servers import Databases, execute


def with_default(postgres: Databases, name: str, value: str) -> str:
    url = postgres.create_database()
    asyncio.run(execute(url, f"ALTER DATABASE {urlsplit(url).path[1:]} SET {name} = '{value}'"))
    return url


@pytest.fixture(params=["repeatable read", "serializable"])
def apart(request: pytest.FixtureRequest, postgres: Databases) -> str:
    return with_default(postgres, "default_transaction_isolation", request.param)


@asynccontextmanager
async def served(url: str, *workflows: Any) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(url) as client, Worker(client, workflows=workflows):
        yield client


class Looking:
    """A transactional step that begins with a query, and then waits until the test lets it end."""

    def __init__(self) -> None:
        self.is_looking = asyncio.Event()
        self.may_end = asyncio.Event()
        self.levels: list[str] = []

        @step(transaction=True)
        async def look(db: asyncpg.Connection) -> str:
            self.levels.append(await db.fetchval("SHOW transaction_isolation"))
            self.is_looking.set()
            await self.may_end.wait()
            return self.levels[-1]

        self.step = look


async def test_children_begun_during_the_transaction_that_ends_their_parent_end_with_it(apart):
    looking = Looking()

    @workflow
    async def child() -> None:
        await holdfast.wait_for_signal("never")

    @workflow
    async def parent() -> str:
        looked = looking.step.start()
        await holdfast.wait_for_signal("begin")
        begun = child.options(id="the child").start()
        await asyncio.wait([looked, begun], return_when=asyncio.FIRST_COMPLETED)
        return await looked

    async with served(apart, parent, child) as client:
        run = await client.start(parent)
        await looking.is_looking.wait()
        await run.signal("begin")
        while await client.store.get_run("the child") is None:
            await asyncio.sleep(0.01)
        looking.may_end.set()
        assert await run.result(timeout=60) == looking.levels[0]
        with pytest.raises(holdfast.RunCancelled):
            await (await client.get_run("the child")).result(timeout=60)


async def lent(url: str, meanwhile: Callable[[Stage, ClaimedRun], Awaitable[dict[str, Any]]]) -> Any:
    """What becomes of a turn that a transaction writes which was begun before something else was committed."""
    stage = Stage(partial(open_store, url))
    await stage.store.open()
    lender = stage.store.lender(LEASE)
    try:
        loan, run = lender.lend(), await stage.held()
        await loan.begin()
        fields = await meanwhile(stage, run)
        assert await loan.check(is_failed=False) is None
        verdict = await loan.commit(turn(run, **fields), now=T0)
        await loan.end()
        return verdict, [row for row, _, _ in await stage.journal(run.id)]
    finally:
        lender.close()
        await stage.close()


async def test_a_message_that_a_transaction_does_not_see_is_not_taken(apart):
    async def told(stage, run):
        await stage.store.send_signal(run.id, "word", b"1", now=T0)
        [message] = await stage.store.read_inbox("one")
        return {"taken": (message.id,)}

    verdict, journal = await lent(apart, told)
    assert (isinstance(verdict, Undone) and verdict.is_certain, journal) == (True, [])


async def test_a_turn_that_a_transaction_does_not_see_is_no_reason_to_execute_its_step_again(apart):
    async def beside(stage, run):
        assert await stage.commit(turn(run)) == [True]
        return {"seq": run.next_seq + 1}

    assert await lent(apart, beside) == (True, [0, 1])


async def test_a_transactional_step_over_a_new_connection_is_executed_once(apart, caplog):
    executed: list[int] = []

    @step(transaction=True)
    async def book(db: asyncpg.Connection, number: int) -> int:
        executed.append(number)
        return number

    @workflow
    async def booking() -> list[int]:
        return [await book(number) for number in range(2)]

    async with served(apart, booking) as client:
        assert await (await client.start(booking)).result(timeout=60) == [0, 1]
    assert executed == [0, 1]
    assert "executes again" not in caplog.text
    assert "has lost the last turns" not in caplog.text


LOST = {
    "turn": "DELETE FROM holdfast.journal WHERE seq = 1",
    "claim": "UPDATE holdfast.runs SET owner = NULL, epoch = 0",
    "claim, and another one made": "UPDATE holdfast.runs SET owner = 'another'",
}


@pytest.mark.parametrize("what", LOST)
async def test_a_transactional_step_that_follows_turns_lost_by_the_server_is_rolled_back(apart, what):
    stage = Stage(partial(open_store, apart))
    await stage.store.open()
    lender = stage.store.lender(LEASE)
    try:
        await stage.store.register_worker("one", [LANE], LEASE)
        loan, run = lender.lend(), await stage.held()
        assert await stage.commit(turn(run), turn(run, after=1)) == [True, True]
        # As a standby that was promoted, to which a connection that is new may be the first.
        await execute(apart, LOST[what])
        await loan.begin()
        verdict = await loan.commit(turn(run, after=2), now=T0)
        await loan.end()
        assert isinstance(verdict, Undone)
        assert verdict.is_certain
        assert 2 not in [row for row, _, _ in await stage.journal(run.id)]
    finally:
        lender.close()
        await stage.close()


@pytest.fixture
def unsynced(postgres: Databases) -> str:
    return with_default(postgres, "synchronous_commit", "off")


async def test_a_transaction_is_durable_when_its_commit_is_answered(unsynced):
    @step(transaction=True)
    async def book(db: asyncpg.Connection) -> None:
        await db.execute("CREATE TABLE told (said text)")
        await db.execute(
            "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " INSERT INTO told VALUES (current_setting('synchronous_commit')); RETURN new; END $$"
        )
        await db.execute("CREATE TRIGGER tells AFTER INSERT ON holdfast.journal FOR EACH ROW EXECUTE FUNCTION tell()")

    @workflow
    async def booking() -> None:
        await book()

    async with served(unsynced, booking) as client:
        await (await client.start(booking)).result(timeout=60)
    connection = await asyncpg.connect(unsynced)
    try:
        found = [row[0] for row in await connection.fetch("SELECT said FROM told")]
    finally:
        await connection.close()
    assert found == ["on"]
