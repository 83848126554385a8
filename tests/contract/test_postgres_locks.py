"""Rows that somebody else has locked, deadlocks, and values that Postgres can't hold: one waits, the others go on."""

import asyncio
import contextlib

import asyncpg
import pytest

import holdfast
from holdfast.errors import StoreAway, StoreError
from holdfast.model import Lane, Out, RowChange, RunStatus
from holdfast.store import open_store
from holdfast.testing.contract.stage import LANE, LEASE, T0, after, new_run, row_write, turn, until
from tests.contract.staging import MEANWHILE, staged
from tests.servers import execute

ENDED = RowChange(status=RunStatus.COMPLETED)


@pytest.fixture
def url(postgres):
    return postgres.create_database()


@contextlib.asynccontextmanager
async def locked(url, *run_ids):
    """Somebody's open transaction that holds the rows of these runs."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.fetch("SELECT 1 FROM holdfast.runs WHERE id = ANY ($1) FOR UPDATE", list(run_ids))
            yield
    finally:
        await connection.close()


async def test_an_end_whose_row_is_locked_waits_and_the_others_of_its_batch_end(url):
    async with staged(url) as stage:
        await stage.start(5)
        runs = await stage.claim()
        turns = [turn(run, change=ENDED) for run in runs]
        async with locked(url, runs[2].id):
            answers = await stage.commit(*turns)
            assert [answer is True for answer in answers] == [True, True, False, True, True]
            assert isinstance(answers[2], StoreAway)
            assert runs[2].id in str(answers[2])
            assert await stage.journal(runs[2].id) == []
        assert await stage.commit(turns[2]) == [True]
        assert await stage.commit(*turns) == [True] * 5
        assert {(await stage.run(run.id)).status for run in runs} == {RunStatus.COMPLETED}


async def test_later_turns_of_a_run_wait_behind_its_turn_that_waits(url):
    async with staged(url) as stage:
        run = await stage.held()
        async with locked(url, run.id):
            waiting = RowChange(status=RunStatus.WAITING)
            answers = await stage.commit(turn(run, change=waiting), turn(run, after=1), turn(run, after=2))
            assert all(isinstance(answer, StoreAway) for answer in answers)
            assert await stage.journal(run.id) == []


async def test_a_plain_turn_is_written_though_its_run_is_locked(url):
    async with staged(url) as stage:
        run = await stage.held()
        async with locked(url, run.id):
            assert await stage.commit(turn(run)) == [True]


async def test_a_stale_turn_whose_run_is_locked_is_refused_all_the_same(url):
    async with staged(url) as stage:
        stale = await stage.held()
        await stage.lose("one")
        await stage.claim_one(worker="two")
        async with locked(url, stale.id):
            assert await stage.commit(turn(stale, change=ENDED)) == [False]


async def test_a_turn_sent_again_is_accepted_though_its_run_is_locked(url):
    async with staged(url) as stage:
        run = await stage.held()
        assert await stage.commit(turn(run, change=ENDED)) == [True]
        async with locked(url, run.id):
            assert await stage.commit(turn(run, change=ENDED)) == [True]


async def test_a_row_only_write_whose_row_is_locked_waits_and_the_others_are_written(url):
    async with staged(url) as stage:
        await stage.start(3)
        runs = await stage.claim()
        writes = [row_write(run) for run in runs]
        stranger = row_write(runs[1], worker="stranger")
        async with locked(url, runs[1].id):
            answers = await stage.store.write_rows([*writes, stranger])
            assert [answer is True for answer in answers] == [True, False, True, False]
            assert isinstance(answers[1], StoreAway)
            assert answers[3] is False
        assert await stage.store.write_rows([writes[1]]) == [True]


async def test_a_turn_that_joins_a_run_does_not_wait_for_a_lock_on_that_run(url):
    async with staged(url) as stage:
        joined, asker = await stage.held(worker="two", key="k"), await stage.held()
        child = new_run(parent_id=asker.id, parent_key="pay", key="k")
        async with locked(url, joined.id):
            assert await stage.commit(turn(asker, out=Out(children=(child,)))) == [True]
        await stage.end(joined)
        assert [message.run_id for message in await stage.store.read_inbox("one")] == [asker.id]


async def test_a_replacement_that_is_locked_when_the_run_before_it_ends_is_woken_later(url):
    async with staged(url) as stage:
        old = await stage.held(key="k")
        new = await stage.start_one(key="k", on_conflict="replace")
        async with locked(url, new):
            assert await stage.commit(turn(old, change=ENDED)) == [True]
            assert (await stage.run(new)).due_at is None
        await stage.store.reap_workers("one", now=T0)
        assert (await stage.claim_one(worker="two")).id == new


async def test_a_replacement_that_was_locked_when_the_run_before_it_ended_is_woken_also_if_that_run_is_gone(url):
    async with staged(url) as stage:
        old = await stage.held(key="k")
        new = await stage.start_one(key="k", on_conflict="replace")
        async with locked(url, new):
            assert await stage.commit(turn(old, change=ENDED)) == [True]
        assert await stage.store.delete_runs([old.id]) == [old.id]
        await stage.store.reap_workers("one", now=T0)
        assert (await stage.claim_one(worker="two")).id == new


async def test_a_run_that_is_locked_when_its_worker_is_reaped_holds_up_none_of_the_others(url):
    async with staged(url) as stage:
        await stage.store.register_worker("one", [LANE], LEASE, now=T0)
        ids = await stage.start(3)
        await stage.claim()
        async with locked(url, ids[1]):
            assert await stage.store.reap_workers("two", now=after(60)) == ["one"]
            assert sorted(run.id for run in await stage.claim(worker="two", now=after(60))) == sorted([ids[0], ids[2]])
        assert await stage.store.reap_workers("two", now=after(61)) == ["one"]
        assert (await stage.claim_one(worker="two", now=after(61))).is_takeover


async def test_a_claim_passes_by_locked_runs(url):
    async with staged(url) as stage:
        ids = await stage.start(3)
        async with locked(url, ids[0]):
            assert [run.id for run in await stage.claim()] == ids[1:]
        assert [run.id for run in await stage.claim()] == ids[:1]


HALT = """
CREATE FUNCTION halt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7);
    RETURN NEW;
END $$;
CREATE TRIGGER halt BEFORE INSERT ON holdfast.journal FOR EACH ROW EXECUTE FUNCTION halt();
"""


async def test_a_batch_does_not_wait_for_another_store_s_batch_over_the_same_runs(url):
    async with staged(url) as stage:
        other = await stage.open()
        await stage.start(3)
        turns = [turn(run, change=RowChange(status=RunStatus.WAITING)) for run in await stage.claim()]
        await execute(url, HALT)
        halting = await asyncpg.connect(url)
        try:
            await halting.execute("SELECT pg_advisory_lock(7)")
            first = asyncio.ensure_future(stage.commit(*turns))
            waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND datname = current_database()"
            while not await halting.fetchval(waiting):
                await asyncio.sleep(0.01)
            # In another order, as locks that wait for each other would have it.
            answers = await asyncio.wait_for(other.commit_turns(turns[::-1], now=T0), MEANWHILE)
            assert [type(answer) for answer in answers] == [StoreAway] * 3
            assert not first.done()
        finally:
            await halting.close()
        assert await first == [True] * 3
        assert await other.commit_turns(turns[::-1], now=T0) == [True] * 3


REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.data = 'poison'::bytea THEN
        RAISE EXCEPTION 'this can not be stored' USING ERRCODE = '{code}';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON holdfast.journal FOR EACH ROW EXECUTE FUNCTION refuse();
"""


@pytest.mark.parametrize(
    ("code", "is_for_ever"), [("22021", True), ("54000", True), ("40P01", False), ("40001", False), ("55P03", False)]
)
async def test_a_turn_that_the_server_refuses_fails_alone(url, code, is_for_ever):
    async with staged(url) as stage:
        await stage.start(100)
        runs = await stage.claim()
        await execute(url, REFUSE.replace("{code}", code))
        turns = [turn(run, b"poison" if place in (17, 63) else b"fine") for place, run in enumerate(runs)]
        answers = await stage.commit(*turns)
        assert [place for place, answer in enumerate(answers) if answer is not True] == [17, 63]
        for place in (17, 63):
            assert isinstance(answers[place], StoreError)
            assert isinstance(answers[place], StoreAway) is not is_for_ever
            assert "this can not be stored" in str(answers[place])
            assert await stage.journal(runs[place].id) == []


async def test_a_turn_behind_one_that_can_never_be_stored_is_refused_too(url):
    async with staged(url) as stage:
        await stage.start(3)
        runs = await stage.claim()
        await execute(url, REFUSE.replace("{code}", "22000"))
        answers = await stage.commit(
            turn(runs[0]), turn(runs[1], b"poison"), turn(runs[2]), turn(runs[1], after=1), turn(runs[0], after=1)
        )
        assert [answer is True for answer in answers] == [True, False, True, False, True]
        assert await stage.journal(runs[1].id) == []
        assert [seq for seq, _, _ in await stage.journal(runs[0].id)] == [0, 1]


@pytest.mark.parametrize("code", ["53100", "57014", "42501"])
async def test_a_fault_of_the_database_fails_the_whole_batch_and_not_one_turn(url, code):
    async with staged(url) as stage:
        await stage.start(3)
        runs = await stage.claim()
        await execute(url, REFUSE.replace("{code}", code))
        with pytest.raises(StoreAway, match="this can not be stored"):
            await stage.commit(turn(runs[0]), turn(runs[1], b"poison"), turn(runs[2]))
        await execute(url, "DROP TRIGGER refuse ON holdfast.journal")
        assert await stage.commit(turn(runs[0]), turn(runs[1], b"poison"), turn(runs[2])) == [True] * 3


async def test_a_report_that_quotes_what_postgres_can_not_hold_is_kept(url):
    async with staged(url) as stage:
        await stage.start(2)
        runs = await stage.claim()
        report = "ValueError: a\0b \ud800"
        assert await stage.hand_back(runs[0], blocked=report) is True
        blocked = RowChange(status=RunStatus.WAITING, blocked=report, release=True)
        assert await stage.commit(turn(runs[1], change=blocked)) == [True]
        assert {(await stage.run(run.id)).blocked for run in runs} == {"ValueError: a\\0b \\ud800"}


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
async def test_no_run_is_found_by_a_text_that_postgres_can_not_hold(url, text):
    async with staged(url) as stage:
        run = await stage.held()
        assert await stage.store.get_run(text) is None
        assert await stage.store.find_run("ship", text) is None
        assert await stage.store.find_run(text, "k") is None
        assert await stage.store.read_journal(text) == []
        assert await stage.store.read_ended([text, run.id]) == []
        assert await stage.store.cancel_run(text) is None
        assert await stage.claim(run_id=text) == []
        assert await stage.commit(turn(run), turn(run, run_id=text)) == [True, False]


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "a\0"},
        {"key": "a\0"},
        {"tags": {"a": "\0"}},
        {"tags": {"\ud800": "a"}},
        {"queue": "\0"},
        {"id": "\ud800"},
    ],
)
async def test_a_start_with_a_text_that_postgres_can_not_hold_is_refused_and_others_beside_it_are_not(url, fields):
    async with staged(url) as stage:
        answers = await asyncio.gather(
            stage.store.start_runs([new_run()]),
            stage.store.start_runs([new_run(**fields)]),
            stage.store.start_runs([new_run()]),
            return_exceptions=True,
        )
        assert [isinstance(answer, list) for answer in answers] == [True, False, True]
        assert isinstance(answers[1], ValueError)
        assert "NUL" in str(answers[1])


async def test_a_worker_for_a_workflow_whose_name_postgres_can_not_hold_is_refused(url):
    async with staged(url) as stage:
        with pytest.raises(ValueError, match="NUL"):
            await stage.store.register_worker("one", [Lane("a\0", "1")], LEASE)
        assert await stage.store.list_workers() == []


@holdfast.step
async def nothing() -> int:
    return 1


@holdfast.workflow
async def short() -> int:
    return await nothing()


async def test_a_run_whose_row_somebody_has_locked_waits_alone_and_then_ends(url, caplog):
    async with holdfast.AsyncClient(url) as client:
        runs = await client.start_many(short, [() for _ in range(100)])

        @holdfast.step(name="hold")
        async def hold() -> None:
            """Locked after its claim, before its end."""
            locking.set_result(None)
            await held.wait()

        @holdfast.workflow(name="long")
        async def long() -> str:
            await hold()
            return "ended"

        locking, held = asyncio.get_running_loop().create_future(), asyncio.Event()
        async with holdfast.Worker(client, workflows=[short, long]):
            for run in runs:
                await run.result(timeout=30)
            one = await client.start(long)
            await locking
            async with locked(url, one.id):
                held.set()
                others = await client.start_many(short, [() for _ in range(99)])
                for run in others:
                    assert await run.result(timeout=30) == 1
                assert await until(lambda: "has to wait" in caplog.text, 30)
                await one.refresh()
                assert not one.status.is_final
            assert await one.result(timeout=30) == "ended"
        assert caplog.text.count("has to wait") == 1
        assert one.id in caplog.text
        assert "taken over" not in caplog.text


@holdfast.step
async def poison() -> str:
    return "poison"


@holdfast.workflow
async def poisoned() -> str:
    return await poison()


async def test_a_run_whose_turn_can_never_be_stored_is_blocked_with_that_error(url):
    async with holdfast.AsyncClient(url) as client, holdfast.Worker(client, workflows=[short, poisoned]):
        assert await (await client.start(short)).result(timeout=30) == 1
        refuse = REFUSE.replace("{code}", "22000").replace(
            "NEW.data = 'poison'::bytea", "position('poison' IN encode(NEW.data, 'escape')) > 0"
        )
        await execute(url, refuse)
        bad = await client.start(poisoned)
        good = await client.start_many(short, [() for _ in range(20)])
        for run in good:
            assert await run.result(timeout=30) == 1

        async def is_blocked():
            while True:
                found = await client.explain(bad.id)
                if "this can not be stored" in str(found):
                    return
                await asyncio.sleep(0.02)

        await asyncio.wait_for(is_blocked(), 30)


async def test_a_close_that_is_cancelled_comes_to_its_end_all_the_same(url):
    store, other = open_store(url), open_store(url)
    await store.open()
    await store.register_worker("one", [LANE], LEASE)
    [run] = await store.start_runs([new_run()])
    async with locked(url, run.id):
        waiting = asyncio.ensure_future(store.cancel_run(run.id))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
    assert await waiting is not None
    await other.open()
    # Nobody holds the worker's lock any more.
    while not (dead := await other.reap_workers("two")):
        await asyncio.sleep(0.01)
    assert dead == ["one"]
    await other.close()
