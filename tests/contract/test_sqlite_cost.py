"""What SQLite calls cost, counted: statements and commits do not grow with the work in them."""

import asyncio

import pytest

from holdfast.model import NewWait, Out, OutEvent, OutSignal, RowChange, RunStatus
from holdfast.store import open_store
from holdfast.store.sqlite import watcher
from holdfast.testing.contract.stage import LANE, T0, new_run, row_write, turn
from tests.contract.staging import play_on


@pytest.fixture
def play(tmp_path):
    """Run an `async def` on a stage whose store is open, and return what it returns."""
    return lambda act: play_on(lambda: open_store(f"sqlite:///{tmp_path}/holdfast.db"), act)


async def spent(store, call):
    """(statements, commits) that a call takes."""
    before = store.stats.statements, store.stats.commits
    answer = await call
    return answer, (store.stats.statements - before[0], store.stats.commits - before[1])


def test_a_claim_takes_as_many_statements_for_a_hundred_runs_as_for_one(play):
    async def act(stage):
        costs = []
        for count in (1, 100):
            ids = await stage.start(count)
            # Each has a journal and a message, and is not handed back: everything that a claim can have to do.
            runs = await stage.claim(count)
            await stage.commit(*(turn(run) for run in runs))
            for run_id in ids:
                await stage.store.cancel_run(run_id, now=T0)
            await stage.lose("one")
            claimed, cost = await spent(stage.store, stage.claim(count, worker="two"))
            assert len(claimed) == count
            assert all(run.is_takeover and run.inbox and len(run.rows) == 2 for run in claimed)
            costs.append(cost)
            await stage.commit(*(turn(run, change=RowChange(status=RunStatus.COMPLETED)) for run in claimed))
        assert costs[0] == costs[1]
        assert costs[0][0] <= 9

    play(act)


def test_plain_turns_are_one_statement_and_one_commit(play):
    async def act(stage):
        await stage.start(300)
        runs = await stage.claim(300)
        for part in (runs[:1], runs[1:3], runs[3:]):
            _, cost = await spent(stage.store, stage.commit(*(turn(run) for run in part)))
            assert cost == (1, 1)

    play(act)


def test_ends_take_as_many_statements_for_a_hundred_runs_as_for_one(play):
    async def act(stage):
        costs = []
        for count in (1, 100):
            await stage.start(count)
            runs = await stage.claim(count)
            change = RowChange(status=RunStatus.COMPLETED)
            _, cost = await spent(stage.store, stage.commit(*(turn(run, change=change) for run in runs)))
            costs.append(cost)
        assert costs[0] == costs[1]

    play(act)


def test_a_plain_end_reads_its_followers_once(play):
    async def act(stage):
        run = await stage.held()
        _, cost = await spent(stage.store, stage.commit(turn(run, change=RowChange(status=RunStatus.COMPLETED))))
        # begin, the row, the change, the question, commit
        assert cost == (5, 1)

    play(act)


def test_an_event_is_delivered_to_a_thousand_waits_in_as_many_statements_as_to_one(play):
    async def act(stage):
        costs = []
        wait = NewWait(number=1, kind="event", name="paid")
        for count in (1, 1000):
            await stage.start(count)
            runs = await stage.claim(count)
            await stage.commit(*(turn(run, out=Out(waits=(wait,))) for run in runs))
            await stage.store.publish_event("paid", b"", now=T0)
            event = (await stage.store.read_unmatched(10)).events[-1]
            waits = await stage.store.find_waits(event, [])
            delivered, cost = await spent(stage.store, stage.store.deliver_event(event, waits))
            assert delivered == count
            costs.append(cost)
        assert costs[0] == costs[1]

    play(act)


def test_children_and_signals_of_a_hundred_turns_take_as_many_statements_as_of_one(play):
    async def act(stage):
        target = await stage.start_one(due_at=T0 + 1)
        costs = []
        for count in (1, 100):
            await stage.start(count)
            runs = await stage.claim(count)
            turns = [
                turn(
                    run,
                    out=Out(
                        children=(new_run(parent_id=run.id, parent_key="c", due_at=T0 + 1),),
                        signals=(OutSignal(target, "go", b""),),
                        values=(("at", b""),),
                        events=(OutEvent("paid", b""),),
                    ),
                )
                for run in runs
            ]
            _, cost = await spent(stage.store, stage.commit(*turns))
            costs.append(cost)
        assert costs[0] == costs[1]

    play(act)


def test_starts_and_hand_backs_take_as_many_statements_for_a_hundred_runs_as_for_one(play):
    async def act(stage):
        await stage.start(1)
        costs = []
        for count in (1, 100):
            _, started = await spent(stage.store, stage.start(count))
            runs = await stage.claim(count + 1)
            writes = [row_write(run, due_at=T0) for run in runs]
            _, written = await spent(stage.store, stage.store.write_rows(writes))
            costs.append((started, written))
        assert costs[0] == costs[1]

    play(act)


def test_writes_asked_for_at_the_same_time_share_commits(play):
    async def act(stage):
        await stage.start(200)
        runs = await stage.claim(200)
        calls = [stage.commit(turn(run)) for run in runs]
        calls += [stage.store.start_runs([new_run()], now=T0) for _ in range(100)]
        calls += [stage.store.cancel_run(run.id, now=T0) for run in runs[:20]]
        answers, (_, commits) = await spent(stage.store, asyncio.gather(*calls))
        assert answers[:200] == [[True]] * 200
        assert commits <= 5
        assert len(await stage.store.claim_runs("two", [LANE], 200, now=T0)) == 100

    play(act)


def test_a_search_for_dead_workers_takes_no_write_lock(play):
    async def act(stage):
        await stage.store.register_worker("one", [LANE], 10**9)
        _, (_, commits) = await spent(stage.store, stage.store.reap_workers("one"))
        assert commits == 0

    play(act)


def test_an_idle_store_with_a_subscriber_asks_the_database_nothing(play, monkeypatch):
    # After the last write it asks for a while, for commits that a disk takes long to make: here for 0.1 s, not 5.
    monkeypatch.setattr(watcher, "_LONGEST", 100_000_000)

    async def act(stage):
        unsubscribe = stage.store.subscribe(lambda: None)
        await asyncio.sleep(0.3)
        _, cost = await spent(stage.store, asyncio.sleep(0.3))
        reads = stage.store.stats.reads
        assert cost == (0, 0)
        await asyncio.sleep(0.1)
        assert stage.store.stats.reads == reads
        unsubscribe()

    play(act)


def test_many_messages_to_joined_runs_take_as_many_statements_as_one(play):
    async def act(stage):
        costs = []
        for count in (50, 500):
            keys = [f"{count}-{place}" for place in range(count)]
            await stage.store.start_runs([new_run(key=key) for key in keys], now=T0)
            asker = await stage.held()
            children = tuple(new_run(key=key, parent_id=asker.id, parent_key=key) for key in keys)
            await stage.commit(turn(asker, out=Out(children=children)))
            signals = tuple(OutSignal(child.id, "go", b"1", child=child.parent_key) for child in children)
            second = turn(asker, after=1, out=Out(signals=signals))
            steps: list[None] = []
            connection = stage.store._writer._link.use().connection
            connection.set_progress_handler(lambda steps=steps: steps.append(None), 100)
            assert await stage.commit(second) == [True]
            connection.set_progress_handler(None, 0)
            costs.append(len(steps))
        assert costs[1] < 20 * costs[0]

    play(act)
