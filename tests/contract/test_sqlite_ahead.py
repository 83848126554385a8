"""The log is written ahead of its use, and nobody notices but the clock."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from holdfast.errors import StoreAway
from holdfast.store import open_store
from holdfast.store.sqlite import ahead
from holdfast.testing.contract.stage import turn
from tests.contract.staging import play_on

PAGE = 4096


@pytest.fixture
def play(path: Path):
    """Run an `async def` on a stage whose store is open, with a run held."""

    def on_stage(act):
        async def with_a_run(stage):
            await act(stage, await stage.held())

        play_on(lambda: open_store(f"sqlite:///{path}"), with_a_run)

    return on_stage


def log(path: Path) -> int:
    return Path(f"{path}-wal").stat().st_size


async def commit(stage, run, turns: range) -> None:
    for number in turns:
        assert await stage.commit(turn(run, after=number)) == [True]


def contents(path: Path) -> list[object]:
    """Of the file as another process finds it."""
    reader = sqlite3.connect(path)
    try:
        tables = reader.execute("SELECT name FROM sqlite_schema ORDER BY name").fetchall()
        seqs = reader.execute("SELECT seq FROM journal ORDER BY seq").fetchall()
        [(verdict,)] = reader.execute("PRAGMA integrity_check").fetchall()
    finally:
        reader.close()
    return [tables, [seq for (seq,) in seqs], verdict]


def test_most_commits_overwrite_the_part_of_the_log_written_ahead(play, path):
    async def act(stage, run):
        before, _, _ = contents(path)
        lengths = set()
        for number in range(1000):
            await commit(stage, run, range(number, number + 1))
            lengths.add(log(path))
        assert len(lengths) < 500
        assert contents(path) == [before, list(range(1000)), "ok"]

    play(act)


def test_a_short_log_is_left_as_it_is(play, path):
    async def act(stage, run):
        await commit(stage, run, range(20))
        assert log(path) < ahead._FROM

    play(act)


def test_a_log_that_is_long_enough_is_left_to_sqlite(play, path, monkeypatch):
    monkeypatch.setattr(ahead, "_ENOUGH", ahead._FROM)

    async def act(stage, run):
        await commit(stage, run, range(250))
        reached = log(path)
        await commit(stage, run, range(250, 260))
        assert log(path) == reached + 10 * (PAGE + 24)

    play(act)


def test_a_database_that_was_copied_in_the_middle_has_every_turn(play, path, tmp_path):
    """What a machine that lost its power would find: the file and its log, with pages that were never committed."""

    async def act(stage, run):
        await commit(stage, run, range(200))
        copy = tmp_path / "copy.db"
        for end in ("", "-wal"):
            Path(f"{copy}{end}").write_bytes(Path(f"{path}{end}").read_bytes())
        assert contents(copy) == contents(path)

    play(act)


@pytest.fixture
def used_up(monkeypatch):
    """Commit as many turns as make the log long, and have none of it written ahead."""

    async def commit_all(stage, run):
        # For good: the writer looks after it has answered.
        monkeypatch.setattr(stage.store._writer._ahead, "look", lambda: None)
        await commit(stage, run, range(200))

    return commit_all


@pytest.mark.parametrize("page", [PAGE, 4 * PAGE])
def test_only_one_of_many_processes_lengthens_the_log(play, path, used_up, page):
    with contextlib.closing(sqlite3.connect(path)) as first:
        first.execute(f"PRAGMA page_size = {page}")
        first.execute("VACUUM")

    async def act(stage, run):
        await used_up(stage, run)
        here, there = ahead.Ahead(str(path)), ahead.Ahead(str(path))
        here.look()
        reached = log(path)
        assert reached > ahead._FROM * 3 // 2
        there.look()
        here.look()
        assert log(path) == reached

    play(act)


def test_a_short_log_doubles_in_length(play, path, used_up):
    async def act(stage, run):
        await used_up(stage, run)
        found = log(path)
        ahead.Ahead(str(path)).look()
        assert found * 3 // 2 < log(path) < found * 3

    play(act)


def test_no_file_is_opened_while_the_log_has_not_grown(play, path, used_up, monkeypatch):
    async def act(stage, run):
        await used_up(stage, run)
        looking = ahead.Ahead(str(path))
        looking.look()
        opened = []
        monkeypatch.setattr(ahead, "connect", opened.append)
        looking.look()
        assert opened == []

    play(act)


def test_a_long_log_becomes_longer_by_a_piece_at_most(play, path, used_up, monkeypatch):
    monkeypatch.setattr(ahead, "_PIECE", 100 * PAGE)

    async def act(stage, run):
        await used_up(stage, run)
        found = log(path)
        ahead.Ahead(str(path)).look()
        assert found < log(path) <= found + (ahead._ROOM + 120) * (PAGE + 24)

    play(act)


def test_a_file_that_can_t_be_opened_just_now_is_left_as_it_is(play, path, used_up, monkeypatch):
    async def act(stage, run):
        await used_up(stage, run)
        reached = log(path)

        def refuse(_: str) -> None:
            raise StoreAway("not now")

        monkeypatch.setattr(ahead, "connect", refuse)
        ahead.Ahead(str(path)).look()
        assert log(path) == reached

    play(act)


def test_a_lock_that_another_process_holds_is_not_waited_for(play, path, used_up):
    async def act(stage, run):
        await used_up(stage, run)
        looking = ahead.Ahead(str(path))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        reached = log(path)
        looking.look()
        assert log(path) == reached
        other.execute("ROLLBACK")
        other.close()
        # When there is more to see, it is tried again.
        looking._seen -= 1
        looking.look()
        assert log(path) > reached

    play(act)
