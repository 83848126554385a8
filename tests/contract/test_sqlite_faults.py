"""What SQLite does when its file, its disk or its neighbours fail."""

import asyncio
import contextlib
import sqlite3
import threading
from pathlib import Path

import pytest

from holdfast.errors import StoreAway, StoreError, StoreTooNew
from holdfast.model import RowChange, RunFilter, RunStatus
from holdfast.store import SqliteStore, open_store
from holdfast.store.sqlite.links import Link, Role
from holdfast.testing.contract.stage import LANE, LEASE, new_run, turn


def writing(store: SqliteStore) -> sqlite3.Connection:
    """The connection that the store writes with."""
    return store._writer._link.use().connection


def move(path: Path, target: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        file = path.with_name(path.name + suffix)
        if file.exists():
            file.rename(target.with_name(target.name + suffix))


@pytest.mark.parametrize(
    "fault",
    ["PRAGMA query_only = ON", "PRAGMA max_page_count = 1"],
    ids=["read-only", "full"],
)
def test_a_write_that_fails_changes_nothing_and_works_again_later(play, fault):
    async def act(stage):
        await stage.start(3)
        runs = await stage.claim()
        turns = [turn(run, b"x" * 5000, change=RowChange(status=RunStatus.COMPLETED)) for run in runs]
        writing(stage.store).execute(fault)
        with pytest.raises(StoreAway, match=r"holdfast\.db"):
            await stage.commit(*turns)
        assert [await stage.journal(run.id) for run in runs] == [[], [], []]
        assert {(await stage.run(run.id)).status for run in runs} == {RunStatus.RUNNING}
        assert await stage.commit(*turns) == [True, True, True]
        assert await stage.commit(*turns) == [True, True, True]
        assert {(await stage.run(run.id)).status for run in runs} == {RunStatus.COMPLETED}

    play(act)


def test_each_call_of_a_group_that_fails_gets_an_error_of_its_own(play):
    async def act(stage):
        run = await stage.held()
        writing(stage.store).execute("PRAGMA query_only = ON")
        answers = await asyncio.gather(
            *(stage.store.start_runs([new_run()]) for _ in range(5)),
            stage.commit(turn(run)),
            stage.store.cancel_run(run.id),
            return_exceptions=True,
        )
        # The first may have gone out alone, and the rest found a new connection.
        away = [answer for answer in answers if isinstance(answer, StoreAway)]
        assert away
        assert len({id(answer) for answer in away}) == len(away)
        assert not [answer for answer in answers if isinstance(answer, Exception) and not isinstance(answer, StoreAway)]

    play(act)


def test_a_file_that_has_vanished_is_away_until_it_is_back(play, path, tmp_path):
    async def act(stage):
        run = await stage.held()
        assert await stage.commit(turn(run)) == [True]
        await asyncio.sleep(0.06)
        move(path, tmp_path / "elsewhere.db")
        for _ in range(2):
            with pytest.raises(StoreAway):
                await stage.commit(turn(run, after=1))
            with pytest.raises(StoreAway):
                await stage.store.get_run(run.id)
        with pytest.raises(StoreAway):
            stage.store.renew_lease("one", LEASE)
        assert not path.exists()
        move(tmp_path / "elsewhere.db", path)
        assert await stage.commit(turn(run, after=1)) == [True]
        assert [seq for seq, _, _ in await stage.journal(run.id)] == [0, 1]

    play(act)


@pytest.mark.parametrize("table", ["runs", "journal"])
def test_a_table_that_somebody_has_taken_away_is_away_until_it_is_back(play, path, table):
    async def act(stage):
        run = await stage.held()
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute(f"ALTER TABLE {table} RENAME TO gone")
            for _ in range(2):
                with pytest.raises(StoreAway, match=f"no such table: {table}.* put them back"):
                    await stage.commit(turn(run))
                with pytest.raises(StoreAway, match=f"no such table: {table}.* put them back"):
                    await stage.store.read_journal(run.id)
            other.execute(f"ALTER TABLE gone RENAME TO {table}")
        assert await stage.commit(turn(run)) == [True]
        assert len(await stage.journal(run.id)) == 1

    play(act)


def open_now(path: Path, **options) -> None:
    async def act():
        store = open_store(f"sqlite:///{path}", **options)
        await store.open()
        await store.close()

    asyncio.run(act())


def no_thread_is_left(before: list[threading.Thread]) -> bool:
    """Whether the threads of stores that have come since then have ended, or do so soon."""
    left = [one for one in threading.enumerate() if one not in before and one.name.startswith("holdfast-sqlite")]
    for thread in left:
        thread.join(60)
    return not any(thread.is_alive() for thread in left)


def started_in(path: Path, **options) -> int:
    """Start a run there; how many were begun."""

    async def act():
        store = open_store(f"sqlite:///{path}", **options)
        await store.open()
        begun = await store.start_runs([new_run()])
        await store.close()
        return len(begun)

    return asyncio.run(act())


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StoreAway, match="nowhere"):
        open_now(tmp_path / "nowhere" / "holdfast.db")


def test_a_folder_instead_of_a_file_is_refused(tmp_path):
    with pytest.raises(StoreAway):
        open_now(tmp_path)


def test_a_file_that_is_no_database_is_left_as_it_is(path):
    path.write_bytes(b"my diary, not a database" * 100)
    with pytest.raises(StoreError, match="not a SQLite database"):
        open_now(path)
    assert path.read_bytes() == b"my diary, not a database" * 100


@pytest.mark.parametrize("table", ["runs (id TEXT)", "migrations (id TEXT)", "migrations (number INTEGER)"])
def test_a_file_with_tables_of_another_application_by_the_same_names_is_left_as_it_is(path, table):
    with contextlib.closing(sqlite3.connect(path)) as theirs:
        theirs.execute(f"CREATE TABLE {table}")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"another application.* name another file") as refused:
        open_now(path)
    assert not isinstance(refused.value, StoreAway)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_file_that_has_another_application_s_tables_beside_ours_is_used(path):
    with contextlib.closing(sqlite3.connect(path)) as theirs:
        theirs.execute("CREATE TABLE orders (id TEXT)")
    assert started_in(path) == 1
    with contextlib.closing(sqlite3.connect(path)) as theirs:
        assert theirs.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_newer_schema_that_old_workers_can_not_live_with_is_refused(path):
    open_now(path)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO migrations (number, applied_at) VALUES (9999, 0)")
    connection.close()
    with pytest.raises(StoreTooNew, match="9999"):
        open_now(path)


def test_a_newer_schema_that_old_workers_can_live_with_is_accepted(path):
    open_now(path)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO migrations (number, applied_at) VALUES (999, 0)")
    connection.close()
    for migrate in (True, False):
        assert started_in(path, migrate=migrate) == 1


def test_opening_works_once_the_reason_of_its_failure_is_gone(tmp_path):
    async def act():
        store = open_store(f"sqlite:///{tmp_path}/later/holdfast.db")
        with pytest.raises(StoreAway):
            await store.open()
        (tmp_path / "later").mkdir()
        await store.open()
        assert len(await store.start_runs([new_run()])) == 1
        await store.close()

    asyncio.run(act())


def test_without_migrating_a_schema_that_is_missing_is_refused(path):
    with contextlib.closing(sqlite3.connect(path)) as theirs:
        theirs.execute("CREATE TABLE orders (id TEXT)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="holdfast migrate"):
        open_now(path, migrate=False)
    assert path.read_bytes() == before
    open_now(path)
    open_now(path, migrate=False)


def test_without_migrating_a_file_that_is_missing_is_not_created(path):
    with pytest.raises(StoreAway, match=r"there is no such file, .* run `holdfast migrate`"):
        open_now(path, migrate=False)
    assert not path.exists()


def test_closing_leaves_no_thread_and_no_lock_behind(path):
    async def act():
        before = threading.active_count()
        store = open_store(f"sqlite:///{path}")
        await store.open()
        unsubscribe = store.subscribe(lambda: None)
        await store.register_worker("one", [LANE], LEASE)
        await store.get_run("nobody")
        unsubscribe()
        await store.close()
        for _ in range(6_000):
            if threading.active_count() <= before:
                break
            await asyncio.sleep(0.01)
        assert threading.active_count() <= before
        other = open_store(f"sqlite:///{path}")
        await other.open()
        assert await other.reap_workers("two") == ["one"]
        await other.close()

    asyncio.run(act())
    # The file that waiters for the write lock hold stays: others may be about to open it.
    assert [file.name for file in Path(f"{path}.holdfast").iterdir() if file.name != "waiting"] == []


def test_a_store_that_is_closed_leaves_everything_in_the_one_file(path, monkeypatch):
    """SQLite empties its log into the file when the last connection goes, unless two of them go at once."""
    close = Link.close
    gone = []

    def closed(link):
        close(link)
        # The threads of stores that could not be opened may still be about to end.
        if link.path == str(path):
            gone.append(link._role)

    async def act():
        store = open_store(f"sqlite:///{path}")
        await store.open()
        await store.register_worker("one", [LANE], LEASE)
        store.renew_lease("one", LEASE)
        await asyncio.gather(*(store.get_run("nobody") for _ in range(20)))
        await store.close()

    monkeypatch.setattr(Link, "close", closed)
    asyncio.run(act())
    assert gone == [Role.READS, Role.READS, Role.WRITES, Role.LEADS]
    assert not Path(f"{path}-wal").exists()


def test_dead_workers_are_found_after_a_search_that_failed(play, path):
    def rename(there, back):
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute(f"ALTER TABLE runs RENAME COLUMN {there} TO {back}")

    async def act(stage):
        other = await stage.open()
        await other.register_worker("dead", [LANE], LEASE)
        # It leaves its row, and nobody holds its lock.
        await other.close()
        rename("owner", "owned_by")
        with pytest.raises(StoreAway):
            await stage.store.reap_workers("one")
        rename("owned_by", "owner")
        assert await stage.store.reap_workers("one") == ["dead"]

    play(act)


def test_a_worker_that_could_not_register_or_leave_keeps_no_lock(play, path):
    def rename(there, back):
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute(f"ALTER TABLE {there} RENAME TO {back}")

    async def act(stage):
        await stage.store.register_worker("old", [LANE], LEASE)
        rename("workers", "employees")
        with pytest.raises(StoreAway):
            await stage.store.register_worker("new", [LANE], LEASE)
        with pytest.raises(StoreAway):
            await stage.store.remove_worker("old")
        assert not [*Path(f"{path}.holdfast").glob("*.lock")]

    play(act)


def test_a_store_that_could_not_be_opened_leaves_no_thread_behind(path):
    path.write_bytes(b"my diary, not a database" * 100)
    before = threading.enumerate()
    for _ in range(3):
        with pytest.raises(StoreError):
            open_now(path)
    assert no_thread_is_left(before)


def test_a_close_that_is_cancelled_comes_to_its_end_all_the_same(path):
    begun, may_end = threading.Event(), threading.Event()

    def accept(_record):
        begun.set()
        return may_end.wait(60)

    async def act():
        store, other = open_store(f"sqlite:///{path}"), open_store(f"sqlite:///{path}")
        await store.open()
        await store.register_worker("one", [LANE], LEASE)
        await store.start_runs([new_run()])
        reading = asyncio.ensure_future(store.list_runs(RunFilter(), accept=accept))
        await asyncio.to_thread(begun.wait)
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        may_end.set()
        assert len((await reading).items) == 1
        await other.open()
        # Nobody holds the worker's lock any more.
        while not (dead := await other.reap_workers("two")):
            await asyncio.sleep(0.01)
        assert dead == ["one"]
        await other.close()

    before = threading.enumerate()
    asyncio.run(act())
    assert no_thread_is_left(before)
