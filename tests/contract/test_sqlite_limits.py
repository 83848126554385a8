"""SQLite's own limits: what is too large to come in one piece comes in several, and nothing is left lying about."""

import asyncio
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.model import RowChange, RunFilter, RunStatus
from holdfast.store import SqliteStore, open_store
from holdfast.testing.contract.stage import LANE, T0, Stage, ids_of, new_run, turn
from tests.contract.staging import play_on

LARGE = b"x" * 20_000


@pytest.fixture
def play(path: Path):
    """Run an `async def` on a stage whose store, with one connection for everything, is open."""
    return lambda act: play_on(lambda: SqliteStore(str(path), f"sqlite:///{path}", "default", inline=True), act)


def limit_length(store: SqliteStore, length: int) -> None:
    """No string or blob may be longer from now on, as if it were SQLite's limit of a billion bytes."""
    store._writer._link.use().connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, length)


def test_inputs_too_large_for_one_string_come_with_one_claim(play, monkeypatch):
    monkeypatch.setattr("holdfast.store.sqlite.claims.PACKED", 10_000)

    async def act(stage):
        [small] = await stage.start(input=b"small")
        ids = await stage.start(10, input=LARGE)
        limit_length(stage.store, 150_000)
        claimed = await stage.claim(11)
        assert {run.id: run.input for run in claimed} == {small: b"small", **dict.fromkeys(ids, LARGE)}

    play(act)


def test_large_turns_come_in_their_places_among_small_ones(play, monkeypatch):
    monkeypatch.setattr("holdfast.store.sqlite.claims.PACKED", 10_000)

    async def act(stage):
        await stage.start(3)
        runs = await stage.claim()
        datas = [LARGE, b"small", LARGE, b"", b"small"]
        for seq, data in enumerate(datas):
            assert all(await stage.commit(*(turn(run, data, after=seq) for run in runs)))
        await stage.lose("one")
        limit_length(stage.store, 100_000)
        for run in await stage.claim(worker="two"):
            assert [row.data for row in run.rows[:5]] == datas

    play(act)


def test_journals_too_large_for_one_string_come_whole(play):
    async def act(stage):
        await stage.start(3)
        runs = await stage.claim()
        for seq in range(4):
            assert all(await stage.commit(*(turn(run, LARGE, after=seq) for run in runs)))
        await stage.lose("one")
        limit_length(stage.store, 100_000)
        for run in await stage.claim(worker="two"):
            assert [row.seq for row in run.rows] == [0, 1, 2, 3, 4]
            assert [row.data for row in run.rows[:4]] == [LARGE] * 4

    play(act)


def claim_with_little_memory(path: str) -> None:
    """In a process of its own: a limit on what SQLite allocates counts for all connections and is never taken back."""

    async def act() -> None:
        stage = Stage(lambda: SqliteStore(path, f"sqlite:///{path}", "default", inline=True))
        await stage.store.open()
        await stage.start(25)
        runs = await stage.claim()
        for seq in range(2):
            assert all(await stage.commit(*(turn(run, LARGE * 5, after=seq) for run in runs)))
        for run in runs:
            await stage.hand_back(run, due_at=T0, next_seq=2)
        limit_length(stage.store, 1_000_000)
        connection = stage.store._writer._link.use().connection
        connection.execute("PRAGMA cache_size = -100")
        connection.execute("PRAGMA hard_heap_limit = 8000000")
        claimed = await stage.claim(25)
        assert [[row.data for row in run.rows] for run in claimed] == [[LARGE * 5] * 2] * 25
        await stage.close()

    asyncio.run(act())


def test_journals_too_large_for_memory_as_one_string_come_whole(path):
    program = f"from {__name__} import claim_with_little_memory as claim; claim({str(path)!r})"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_runs_too_large_to_be_read_together_are_read_apart(play):
    async def act(stage):
        ids = await stage.start(9, input=LARGE)
        runs = await stage.claim()
        change = RowChange(status=RunStatus.COMPLETED, output=LARGE)
        assert all(await stage.commit(*(turn(run, change=change) for run in runs)))
        limit_length(stage.store, 200_000)
        assert sorted(ids_of(await stage.store.read_ended(ids))) == sorted(ids)
        page = await stage.store.list_runs(RunFilter(), limit=9)
        found = ids_of(page.items)
        while page.next is not None:
            page = await stage.store.list_runs(RunFilter(), cursor=page.next, limit=9)
            found += ids_of(page.items)
        assert found == ids[::-1]

    play(act)


def test_a_page_that_looks_at_many_runs_ends_early_and_goes_on(play, monkeypatch):
    monkeypatch.setattr("holdfast.store.sqlite.runs.CHUNK", 10)
    monkeypatch.setattr("holdfast.store.sqlite.runs.MOST_LOOKED_AT", 30)

    async def act(stage):
        runs = [new_run(tags={"rare": "yes" if number % 45 == 0 else "no"}) for number in range(200)]
        await stage.store.start_runs(runs, now=T0)
        pages, cursor = [], None
        while True:
            page = await stage.store.list_runs(RunFilter(tags={"rare": "yes"}), cursor=cursor, limit=2)
            pages.append(ids_of(page.items))
            cursor = page.next
            if cursor is None:
                break
        assert [] in pages
        assert [run_id for page in pages for run_id in page] == [run.id for run in runs if run.tags["rare"] == "yes"][
            ::-1
        ]

    play(act)


def test_an_ended_run_leaves_no_message_behind(play, path):
    async def act(stage):
        await stage.start(3)
        runs = await stage.claim()
        for run in runs:
            await stage.store.cancel_run(run.id, now=T0)
        await stage.commit(turn(runs[0], change=RowChange(status=RunStatus.CANCELLED)))
        [message] = [one for one in await stage.store.read_inbox("one") if one.run_id == runs[1].id]
        await stage.commit(turn(runs[1], taken=(message.id,), change=RowChange(status=RunStatus.CANCELLED)))
        await stage.store.cancel_run(runs[2].id, force=True, now=T0)

    play(act)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM inbox").fetchone() == (0,)
    connection.close()


def test_a_paused_run_is_claimed_only_to_be_cancelled(play, path):
    async def act(stage):
        run = await stage.held()
        await stage.hand_back(run, due_at=T0)
        with sqlite3.connect(path) as other:
            other.execute("UPDATE runs SET paused = 1")
        other.close()
        assert await stage.claim() == []
        assert await stage.claim(run_id=run.id) == []
        assert await stage.store.next_due([LANE], now=T0) is None
        await stage.store.cancel_run(run.id, now=T0)
        assert await stage.store.next_due([LANE], now=T0) == T0
        assert len((await stage.claim_one()).inbox) == 1

    play(act)


def test_the_number_of_a_deleted_run_is_never_given_again(play, path):
    async def act(stage):
        stale = await stage.held()
        with sqlite3.connect(path) as other:
            other.execute("DELETE FROM runs")
        other.close()
        new = await stage.held()
        assert await stage.commit(turn(stale, b"stale")) == [False]
        assert await stage.journal(new.id) == []

    play(act)


def test_stores_in_memory_are_databases_of_their_own():
    async def act():
        stores = [open_store("sqlite:///:memory:") for _ in range(2)]
        for store in stores:
            await store.open()
        [started] = await stores[0].start_runs([new_run()])
        assert await stores[1].get_run(started.id) is None
        for store in stores:
            await store.close()

    asyncio.run(act())
