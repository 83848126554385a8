"""Somebody removes the log beside a SQLite file under those who have it open: they notice, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import StoreAway, StoreError
from holdfast.store import open_store
from holdfast.testing.contract.stage import LEASE, Stage, new_run, turn
from tests.contract.staging import play_on

AGAIN = "end every process that has opened it and start it again"


def beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


async def look_again() -> None:
    """Until a connection looks again whether its files are still there."""
    await asyncio.sleep(0.06)


class Other:
    """A connection in another process: this one's SQLite still has the old log in its hands."""

    def __init__(self, path: Path) -> None:
        script = (
            "import sqlite3, sys\n"
            "other = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
            "for line in sys.stdin:\n"
            "    print((other.execute(line).fetchone() or [None])[0], flush=True)\n"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def asks(self, statement: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(statement, file=self._process.stdin, flush=True)
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.communicate()


@pytest.mark.parametrize("removed", [("-wal", "-shm"), ("-wal",), ("-shm",)], ids=" ".join)
def test_a_removed_log_is_noticed_and_its_content_saved(play, path, removed):
    async def act(stage):
        run = await stage.held()
        await stage.start(4)
        await look_again()
        for ending in removed:
            beside(path, ending).unlink()
        with pytest.raises(StoreAway, match=f"{removed[0]} was deleted or replaced .* carried over .* {AGAIN}"):
            await stage.commit(turn(run))
        await look_again()
        with pytest.raises(StoreAway, match=AGAIN):
            await stage.store.start_runs([new_run()])
        with pytest.raises(StoreAway, match=AGAIN):
            await stage.store.get_run(run.id)
        with pytest.raises(StoreAway, match=AGAIN):
            stage.store.renew_lease("one", LEASE)
        with contextlib.closing(Other(path)) as other:
            assert other.asks("select count(*) from runs") == "5"
            assert other.asks("select count(*) from journal") == "1"

    play(act)


def test_saving_a_removed_log_overwrites_nothing_that_others_have_begun_since(play, path):
    async def act(stage):
        await stage.start(3)
        await look_again()
        for ending in ("-wal", "-shm"):
            beside(path, ending).unlink()
        with contextlib.closing(Other(path)) as other:
            other.asks("create table others (id)")
            with pytest.raises(StoreAway, match=f"-wal was deleted or replaced .* may be lost; {AGAIN}"):
                await stage.start_one()
            assert other.asks("select group_concat(name) from sqlite_master") == "others"
            assert other.asks("pragma integrity_check") == "ok"

    play(act)


def test_another_file_in_the_place_of_one_that_lost_its_log_is_opened(play, path, tmp_path):
    async def act(stage):
        await stage.start(2)
        await look_again()
        for ending in ("-wal", "-shm"):
            beside(path, ending).unlink()
        with pytest.raises(StoreAway, match=AGAIN):
            await stage.start_one()
        backup = Stage(lambda: open_store(f"sqlite:///{tmp_path / 'backup.db'}"))
        await backup.store.open()
        await backup.close()
        (tmp_path / "backup.db").rename(path)
        assert await stage.start_one()

    play(act)


def test_a_file_in_the_place_of_a_deleted_one_that_lost_its_log_is_opened(play, path, tmp_path):
    """The system likes to give the number of a deleted file to the next one."""
    play_on(lambda: open_store(f"sqlite:///{tmp_path / 'backup.db'}"), Stage.start_one)
    backup = (tmp_path / "backup.db").read_bytes()

    async def act(stage):
        await look_again()
        for ending in ("-wal", "-shm"):
            beside(path, ending).unlink()
        with pytest.raises(StoreAway, match=AGAIN):
            await stage.start_one()

    play(act)
    path.unlink()
    path.write_bytes(backup)
    play(lambda stage: stage.start_one())


def test_a_log_that_sqlite_takes_away_and_makes_anew_is_nobody_s_fault(path):
    async def act():
        for _ in range(3):
            stage = Stage(lambda: open_store(f"sqlite:///{path}"))
            await stage.store.open()
            await stage.start_one()
            await look_again()
            await stage.start_one()
            await stage.close()
            assert not beside(path, "-wal").exists()

    asyncio.run(act())


def test_a_damaged_file_is_told_with_what_a_restore_may_have_left_beside_it(play, path):
    play(lambda stage: stage.start(50))
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(StoreError, match=r"malformed.* remove .*holdfast\.db-wal and .*holdfast\.db-shm"):
        play(lambda stage: stage.start(1))
