"""A server that comes back without its last commits, as an asynchronous standby that was promoted: numbers that a store
has learned may be anybody's there."""

from __future__ import annotations

from contextlib import asynccontextmanager

import asyncpg

from holdfast.errors import StoreAway
from holdfast.store import open_store
from holdfast.testing.contract.stage import LANE, Stage, new_run, turn

CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
RUNS = """
DELETE FROM holdfast.journal; DELETE FROM holdfast.starts; DELETE FROM holdfast.runs;
ALTER SEQUENCE holdfast.runs_number_seq RESTART
"""


@asynccontextmanager
async def staged(postgres):
    url = postgres.create_database()
    stage = Stage(lambda **options: open_store(url, **options))
    await stage.store.open()
    try:
        yield stage
    finally:
        await stage.close()


async def lose(stage, what):
    """What was committed last is not there any more, and everybody has to connect anew."""
    connection = await asyncpg.connect(stage.store.url)
    await connection.execute(what)
    await connection.execute(f"{CUT} AND pid <> pg_backend_pid()")
    await connection.close()


async def answered(deed):
    """What a deed comes to when the store is back."""
    while True:
        try:
            found = await deed()
        except StoreAway:
            continue
        if not (isinstance(found, list) and any(isinstance(answer, StoreAway) for answer in found)):
            return found


async def test_a_turn_of_a_run_that_was_lost_is_not_written_to_the_run_that_has_its_number(postgres):
    async with staged(postgres) as stage:
        lost = await stage.held()
        await lose(stage, RUNS)
        other = await stage.open()
        [started] = await other.start_runs([new_run()])
        assert await answered(lambda: stage.commit(turn(lost))) == [False]
        assert await other.read_journal(started.id) == []


async def test_turns_of_runs_that_are_still_there_need_no_look_up_after_an_outage(postgres):
    async with staged(postgres) as stage:
        run = await stage.held()
        await lose(stage, "SELECT 1")
        assert await answered(lambda: stage.commit(turn(run))) == [True]
        before = stage.store.stats.statements
        assert await stage.commit(turn(run, after=1)) == [True]
        assert stage.store.stats.statements == before + 1


async def test_a_run_is_not_started_on_the_lane_that_has_the_number_of_one_that_was_lost(postgres):
    async with staged(postgres) as stage:
        await stage.start_one()
        await lose(stage, "UPDATE holdfast.lanes SET workflow = 'other'")
        started = await answered(stage.start_one)
        assert (await stage.run(started)).workflow == LANE.workflow
