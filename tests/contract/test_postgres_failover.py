"""A server that comes back without its last commits, as an asynchronous standby that was promoted: numbers that a store
has learned may be anybody's there, and what comes behind lost turns is not written."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

import holdfast
from holdfast.errors import StoreAway
from holdfast.model import NewWait, Out, RowChange, RunStatus
from holdfast.store.loans import Undone
from holdfast.testing.contract.stage import LANE, LEASE, T0, new_run, row_write, turn, until
from tests.contract.staging import staged
from tests.servers import Postgres, execute

CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
LAST = "DELETE FROM holdfast.journal WHERE seq >= 1"
RUNS = """
DELETE FROM holdfast.journal; DELETE FROM holdfast.starts; DELETE FROM holdfast.runs;
ALTER SEQUENCE holdfast.runs_number_seq RESTART
"""


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
    async with staged(postgres.create_database()) as stage:
        lost = await stage.held()
        await lose(stage, RUNS)
        other = await stage.open()
        [started] = await other.start_runs([new_run()])
        assert await answered(lambda: stage.commit(turn(lost))) == [False]
        assert await other.read_journal(started.id) == []


async def test_turns_of_runs_that_are_still_there_need_no_look_up_after_an_outage(postgres):
    async with staged(postgres.create_database()) as stage:
        run = await stage.held()
        await lose(stage, "SELECT 1")
        assert await answered(lambda: stage.commit(turn(run))) == [True]
        before = stage.store.stats.statements
        assert await stage.commit(turn(run, after=1)) == [True]
        assert stage.store.stats.statements == before + 1


async def test_a_run_is_not_started_on_the_lane_that_has_the_number_of_one_that_was_lost(postgres):
    async with staged(postgres.create_database()) as stage:
        await stage.start_one()
        await lose(stage, "UPDATE holdfast.lanes SET workflow = 'other'")
        started = await answered(stage.start_one)
        assert (await answered(lambda: stage.run(started))).workflow == LANE.workflow


NEXT = {
    "plain": {},
    "changing": {"change": RowChange(status=RunStatus.WAITING, release=True)},
    "giving": {"out": Out(waits=(NewWait(number=1, kind="event", name="paid"),))},
}


@pytest.mark.parametrize("kind", NEXT)
async def test_a_turn_that_comes_behind_lost_ones_is_refused_and_its_run_goes_on_from_what_is_there(postgres, kind):
    async with staged(postgres.create_database()) as stage:
        run = await stage.held()
        assert await stage.commit(turn(run), turn(run, after=1), turn(run, after=2)) == [True] * 3
        await lose(stage, LAST)
        assert await answered(lambda: stage.commit(turn(run, after=3, **NEXT[kind]))) == [False]
        again = await answered(lambda: stage.claim_one(worker="two"))
        assert (again.id, again.next_seq, again.is_takeover, len(again.rows)) == (run.id, 1, False, 1)
        assert await stage.commit(turn(run, after=3)) == [False]


async def test_a_run_whose_last_turns_were_lost_is_not_parked_behind_them(postgres):
    async with staged(postgres.create_database()) as stage:
        run = await stage.held()
        assert await stage.commit(turn(run), turn(run, after=1)) == [True, True]
        await lose(stage, LAST)
        parked = row_write(run, next_seq=2)
        assert await answered(lambda: stage.store.write_rows([parked])) == [False]
        assert (await answered(lambda: stage.claim_one(worker="two"))).next_seq == 1


async def test_a_turn_of_a_claim_that_was_lost_is_refused_though_another_claim_has_its_epoch(postgres):
    async with staged(postgres.create_database()) as stage:
        run = await stage.held()
        await lose(stage, "UPDATE holdfast.runs SET owner = NULL, epoch = 0, next_seq = 0, started_at = NULL")
        other = await stage.open()
        [again] = await other.claim_runs("two", [LANE], 1, now=T0)
        assert again.epoch == run.epoch
        assert await answered(lambda: stage.commit(turn(run, b"lost"))) == [False]
        assert await other.commit_turns([turn(again, b"kept")], now=T0) == [True]
        assert [row.data for row in await other.read_journal(run.id)] == [b"kept"]


async def test_a_turn_of_a_claim_that_was_lost_is_refused_before_anybody_has_claimed_the_run_again(postgres):
    async with staged(postgres.create_database()) as stage:
        run = await stage.held()
        await lose(stage, "UPDATE holdfast.runs SET owner = NULL, epoch = 0, next_seq = 0, started_at = NULL")
        assert await answered(lambda: stage.commit(turn(run, b"lost"))) == [False]
        assert await answered(lambda: stage.store.read_journal(run.id)) == []


async def test_a_turn_sent_again_after_an_outage_is_accepted_also_if_it_has_cut_its_journal(postgres):
    async with staged(postgres.create_database()) as stage:
        run = await stage.held()
        cut = turn(run, after=1, out=Out(truncate=True))
        assert await stage.commit(turn(run), cut) == [True, True]
        await lose(stage, "SELECT 1")
        assert await answered(lambda: stage.commit(cut)) == [True]
        assert await stage.commit(turn(run, after=2)) == [True]


async def test_a_transactional_step_behind_lost_turns_is_rolled_back(postgres):
    async with staged(postgres.create_database()) as stage:
        run = await stage.held()
        assert await stage.commit(turn(run), turn(run, after=1)) == [True, True]
        await lose(stage, LAST)
        lender = stage.store.lender(LEASE)
        loan = lender.lend()
        await loan.begin()
        assert isinstance(await loan.commit(turn(run, after=2), now=None), Undone)
        await loan.end()
        lender.close()
        handed_back = row_write(run, next_seq=2)
        assert await answered(lambda: stage.store.write_rows([handed_back])) == [False]
        assert (await answered(lambda: stage.claim_one(worker="two"))).next_seq == 1


async def test_steps_whose_results_were_lost_are_executed_again(postgres):
    url = postgres.create_database()
    executed, is_there, may_go_on = [], asyncio.Event(), asyncio.Event()

    @holdfast.step
    async def do(number: int) -> int:
        executed.append(number)
        if executed == [0, 1, 2, 3]:
            is_there.set()
            await may_go_on.wait()
        return number

    @holdfast.workflow
    async def count() -> list[int]:
        return [await do(number) for number in range(5)]

    async with holdfast.AsyncClient(url) as client, holdfast.Worker(client, workflows=[count]):
        run = await client.start(count)
        await is_there.wait()
        connection = await asyncpg.connect(url)
        await connection.execute(LAST)
        await connection.execute(f"{CUT} AND pid <> pg_backend_pid()")
        await connection.close()
        may_go_on.set()
        assert await run.result(timeout=30) == [0, 1, 2, 3, 4]
        assert executed == [0, 1, 2, 3, 1, 2, 3, 4]
        store = await client._connection.opened()
        rows = [row.seq for row in await answered(lambda: store.read_journal(run.id))]
        assert rows == [*range(len(rows))]


async def test_a_run_whose_parking_was_lost_is_given_back_by_the_worker_that_does_not_hold_it(caplog):
    @holdfast.workflow
    async def nap() -> str:
        return str(await holdfast.wait_for_signal("go"))

    with Postgres(durable=False) as server:
        url = server.create_database()
        async with holdfast.AsyncClient(url) as client, holdfast.Worker(client, workflows=[nap], lease="1h"):
            run = await client.start(nap)
            while (await run.refresh()).record.owner is not None or run.status != "waiting":
                pass
            lost = "SET owner = workers.id, next_seq = NULL, status = 'running' FROM holdfast.workers"
            await execute(url, f"UPDATE holdfast.runs {lost}")
            await asyncio.to_thread(server.stop)
            assert await until(lambda: "claims wait for it" in caplog.text)
            await asyncio.to_thread(server.start)
            await answered(lambda: run.signal("go", "on"))
            assert await run.result(timeout=30) == "on"
