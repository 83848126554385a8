"""What the Postgres store does when its server, its connections or its disk fail: nothing is lost, nothing is twice."""

import asyncio
import gc
import logging
from functools import partial

import asyncpg
import pytest

import holdfast
from holdfast.errors import StoreAway, StoreError
from holdfast.model import RowChange, RunStatus
from holdfast.store import News, open_store
from holdfast.store.postgres import links
from holdfast.store.postgres.statements import blocks_for
from holdfast.testing.contract.stage import LANE, LEASE, new_run, turn, until
from tests.contract.staging import staged
from tests.servers import Postgres, execute, fetch
from tests.servers.wire import Wire

ENDED = RowChange(status=RunStatus.COMPLETED)


@pytest.fixture
def url(server):
    server.start()
    return server.create_database()


async def insisting(send):
    """Send it again until the store is back, as a worker does."""
    while True:
        try:
            return await send()
        except StoreAway:
            await asyncio.sleep(0.05)


def is_commit(data: bytes) -> bool:
    return b"COMMIT" in data


def is_turn(data: bytes) -> bool:
    return b"one turn" in data


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
async def test_turns_sent_again_over_a_restart_are_there_once_each(server, url, how):
    async with staged(url) as stage:
        await stage.start(20)
        runs = await stage.claim()
        done = 0

        async def commit():
            nonlocal done
            for seq in range(40):
                turns = [turn(run, after=seq) for run in runs]
                assert await insisting(lambda turns=turns: stage.store.commit_turns(turns)) == [True] * len(turns)
                done = seq

        committing = asyncio.create_task(commit())
        for at in (5, 15, 25):
            assert await until(lambda at=at: done >= at or committing.done(), 30)
            await asyncio.to_thread(server.kill if how == "kill" else lambda: server.stop(how))
            await asyncio.to_thread(server.start)
        await committing
        for run in runs:
            assert [seq for seq, _, _ in await stage.journal(run.id)] == list(range(40))


async def test_everything_raises_store_away_while_the_server_is_down_and_works_when_it_is_back(server, url):
    async with staged(url) as stage:
        run = await stage.held()
        await asyncio.to_thread(server.stop)
        calls = [
            lambda: stage.commit(turn(run)),
            lambda: stage.store.get_run(run.id),
            lambda: stage.claim(),
            lambda: stage.store.start_runs([new_run()]),
            lambda: stage.store.reap_workers("one"),
            lambda: asyncio.to_thread(stage.store.renew_lease, "one", LEASE),
        ]
        for call in calls:
            with pytest.raises(StoreAway, match="Ask again when"):
                await call()
        await asyncio.to_thread(server.start)
        assert await stage.commit(turn(run)) == [True]
        assert (await stage.run(run.id)).id == run.id
        assert (await stage.store.start_runs([new_run()]))[0].created


async def test_a_subscriber_hears_of_others_again_after_a_restart(server, url, monkeypatch):
    async with staged(url) as stage:
        other = await stage.open()
        told = []
        unsubscribe = stage.store.subscribe(lambda: told.append(1))
        assert await until(lambda: bool(told))
        await asyncio.to_thread(server.restart, "immediate")
        told.clear()
        # Told once when it listens again, of what may have happened meanwhile.
        assert await until(lambda: bool(told), 20)
        listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
        while (await fetch(url, listening))[0][0] == 0:
            await asyncio.sleep(0.02)
        # Whoever can't listen is told to look now and then: not here, from now on.
        monkeypatch.setattr("holdfast.store.postgres.watcher._LATEST", 7200)
        await asyncio.sleep(0.1)
        told.clear()
        await insisting(lambda: other.start_runs([new_run()]))
        assert await until(lambda: bool(told), 30)
        unsubscribe()


async def test_a_worker_goes_on_over_restarts_and_says_so_once_each_time(server, url, caplog):
    executed = []

    @holdfast.step
    async def work(number: int) -> int:
        executed.append(number)
        await asyncio.sleep(0.02)
        return number

    @holdfast.workflow
    async def counting(number: int) -> int:
        return sum([await work(number * 10 + place) for place in range(10)])

    caplog.set_level(logging.WARNING)
    async with (
        holdfast.AsyncClient(url) as client,
        holdfast.Worker(client, workflows=[counting], lease="1h"),
    ):
        runs = await client.start_many(counting, [(number,) for number in range(20)])
        for how in ("fast", "immediate"):
            await asyncio.sleep(0.1)
            await asyncio.to_thread(server.restart, how)
        for number, run in enumerate(runs):
            assert await insisting(lambda run=run: run.result(timeout=60)) == sum(number * 10 + p for p in range(10))
    # No lease was lost, so no step that had begun was begun again.
    assert sorted(executed) == list(range(200))
    assert len([record for record in caplog.records if "away" in record.message]) <= 8


async def test_a_turn_whose_answer_is_lost_is_accepted_when_it_is_sent_again(url):
    async with Wire(url) as wire, staged(wire.url) as stage:
        old = await stage.held(key="k", id="old")
        run = await stage.held()
        ended = turn(run, b"one turn", change=ENDED)
        wire.cut_after(is_turn)
        with pytest.raises(StoreAway):
            await stage.commit(ended)
        assert wire.cuts == 1
        assert (await stage.run(run.id)).status is RunStatus.COMPLETED
        assert await stage.commit(ended) == [True]
        assert await stage.journal(run.id) == [(0, run.epoch, b"one turn")]
        assert (await stage.run(run.id)).epoch == run.epoch
        assert (await stage.run(old.id)).status is RunStatus.RUNNING


async def test_a_turn_that_never_arrived_is_accepted_when_it_is_sent_again(url):
    async with Wire(url) as wire, staged(wire.url) as stage:
        run = await stage.held()
        wire.cut_before(is_turn)
        with pytest.raises(StoreAway):
            await stage.commit(turn(run, b"one turn", change=ENDED))
        assert await stage.journal(run.id) == []
        assert await stage.commit(turn(run, b"one turn", change=ENDED)) == [True]
        assert (await stage.run(run.id)).status is RunStatus.COMPLETED


async def test_a_turn_too_large_for_the_server_is_refused_and_not_sent_for_ever(url, monkeypatch):
    """It hangs up as soon as it hears how long a message will be: whoever took that for an outage would never stop."""
    monkeypatch.setattr(links, "LARGEST", 20)
    async with Wire(url) as wire, staged(wire.url) as stage:
        large, small = await stage.held(), await stage.held()
        wire.cut_before(is_turn)
        (answer,) = await stage.commit(turn(large, b"one turn" * 3, change=ENDED))
        assert wire.cuts == 1
        assert type(answer) is StoreError
        assert "bytes in one write are more than Postgres takes" in str(answer)
        assert await stage.commit(turn(small, b"another turn", change=ENDED)) == [True]
        assert await stage.journal(large.id) == []


async def test_a_store_that_is_closed_while_it_connects_leaves_nothing_behind(url, caplog):
    async with Wire(url) as wire:
        store = open_store(wire.url)
        await store.open()
        wire.is_slow = True
        wire.cut_all()
        # It has something to tell others, which takes a new connection once it is known that the old one was cut.
        while not wire.unanswered:
            store._thread.post(partial(store._watcher.tell, News.WORK))
            await asyncio.sleep(0.01)
        # Closing waits for that, but not for long.
        await store.close()
        del store
        gc.collect()
    assert [record.getMessage() for record in caplog.records] == []


async def test_turns_are_written_once_each_though_the_server_ends_all_connections_before_each(url):
    async with staged(url) as stage:
        run = await stage.held()
        assert await stage.commit(turn(run)) == [True]
        gone = """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()
        """
        for after in range(1, 4):
            await execute(url, gone)
            assert await insisting(lambda after=after: stage.commit(turn(run, after=after))) == [True]
        assert [seq for seq, _, _ in await stage.journal(run.id)] == [0, 1, 2, 3]


async def test_a_start_sent_again_after_a_lost_answer_finds_its_own_run(url):
    async with Wire(url) as wire, staged(wire.url) as stage:
        run = new_run(key="k", input=b"one turn")
        wire.cut_after(is_turn)
        with pytest.raises(StoreAway):
            await stage.store.start_runs([run])
        [again] = await stage.store.start_runs([run])
        assert (again.id, again.created) == (run.id, False)


async def test_a_claim_whose_answer_is_lost_is_handed_back_and_counts_no_crash(url):
    async with Wire(url) as wire, staged(wire.url) as stage:
        await stage.store.register_worker("one", [LANE], LEASE)
        [run_id] = [run.id for run in await stage.store.start_runs([new_run()])]
        wire.cut_after(is_commit)
        with pytest.raises(StoreAway):
            await stage.store.claim_runs("one", [LANE], 10)
        assert (await stage.run(run_id)).owner == "one"
        assert await stage.store.release_strays("one", []) == [run_id]
        [run] = await stage.store.claim_runs("one", [LANE], 10)
        assert (run.id, run.is_takeover, run.crashes) == (run_id, False, 0)


async def statement(url, name, **params):
    """Execute a block by hand, as a message that was a long time on its way would."""
    found = blocks_for("holdfast").statement(name)
    return await fetch(url, found.text, *found.values({"namespace_id": 1, "now": None, **params}))


async def test_a_late_claim_claims_nothing_once_its_lost_answer_was_handed_back(url):
    async with staged(url) as stage:
        await stage.store.register_worker("one", [LANE], LEASE)
        await stage.store.start_runs([new_run(), new_run()])
        [lane] = await fetch(url, "SELECT id FROM holdfast.lanes")
        late = {
            "owner": "one",
            "lanes": [lane[0]],
            "limit": 10,
            "reach": 40,
            "unbegun": False,
            "suspects": 1,
            "most": 10,
            "floor": 0,
        }
        assert await stage.store.release_strays("one", []) == []
        assert await statement(url, "claim_runs", **late, generation=0) == []
        assert len(await statement(url, "claim_runs", **late, generation=1)) == 2


async def test_a_late_release_releases_nothing(url):
    async with staged(url) as stage:
        await stage.store.register_worker("one", [LANE], LEASE)
        await stage.store.start_runs([new_run()])
        await stage.store.release_strays("one", [])
        [run] = await stage.store.claim_runs("one", [LANE], 10)
        assert await statement(url, "next_generation", id="one", generation=1) == []
        assert await stage.commit(turn(run)) == [True]
        assert (await stage.run(run.id)).owner == "one"


async def test_a_full_disk_pauses_a_worker_and_it_goes_on_when_there_is_room(url):
    @holdfast.step
    async def work() -> str:
        return "done"

    @holdfast.workflow
    async def working() -> str:
        return await work()

    full = """
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$
    """
    async with holdfast.AsyncClient(url) as client:
        run = await client.start(working)
        await execute(url, full)
        await execute(
            url,
            "CREATE TRIGGER full_disk BEFORE INSERT ON holdfast.journal FOR EACH ROW EXECUTE FUNCTION full_disk()",
        )
        async with holdfast.Worker(client, workflows=[working]):
            with pytest.raises(TimeoutError):
                await run.result(timeout=1)
            await execute(url, "DROP TRIGGER full_disk ON holdfast.journal")
            assert await run.result(timeout=30) == "done"


async def test_a_database_that_is_read_only_for_a_while_is_away(url):
    async with staged(url) as stage:
        turns = [turn(await stage.held()) for _ in range(2)]
        # What the server says to a write while it is a standby.
        await stage.store._commits.home.here().run(_make_read_only)
        with pytest.raises(StoreAway, match="read-only"):
            await stage.commit(*turns)
        # It looks for another server by a new connection.
        assert await stage.commit(*turns) == [True, True]


async def test_a_turn_alone_looks_for_another_server_at_once(url):
    async with staged(url) as stage:
        # As when a worker registers: a connection that is new may be one to a server that has lost the run's turns.
        await stage.store._commits.home.here().open()
        run = await stage.held()
        await stage.store._commits.home.here().run(_make_read_only)
        assert await stage.commit(turn(run)) == [True]


async def _make_read_only(tx):
    await tx.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", ())


async def test_a_server_with_too_many_connections_counts_as_away():
    with Postgres(durable=False, settings={"max_connections": "4", "superuser_reserved_connections": "0"}) as small:
        held = [await asyncpg.connect(small.url) for _ in range(4)]
        store = open_store(small.url)
        with pytest.raises(StoreAway, match="too many"):
            await store.open()
        for connection in held:
            await connection.close()
        await insisting(store.open)
        assert (await store.start_runs([new_run()]))[0].created
        await store.close()


async def test_an_error_about_prepared_statements_suggests_a_pooler(url):
    async with staged(url) as stage:
        await stage.store.list_workers()
        # As if the next statement came to another connection of the server's.
        await stage.store._thread.call(partial(stage.store._pool.run, _forget_statements))
        with pytest.raises(StoreError, match=r"does not exist\. .* say so with \?pooler=transaction behind the url$"):
            await stage.store.list_workers()


async def _forget_statements(tx):
    await tx.execute("DEALLOCATE ALL", ())
