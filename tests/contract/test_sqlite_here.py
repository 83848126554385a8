"""A turn alone is committed by whoever asks for it, on its own loop, unless that might take long."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from holdfast.errors import StoreError
from holdfast.model import RowChange, RunStatus
from holdfast.store import open_store
from holdfast.store.sqlite.ahead import Ahead
from holdfast.store.sqlite.pace import Pace
from holdfast.testing.contract.stage import Stage, turn
from tests.contract.staging import play_on


@pytest.fixture
def play(path: Path, monkeypatch):
    """Run an `async def` on a stage whose store is open, with three runs held. No commit counts as slow, and the thread
    does nothing more with the connection once it has answered."""
    monkeypatch.setattr(Pace, "took", lambda pace, seconds: None)
    monkeypatch.setattr(Ahead, "look", lambda ahead: None)

    def on_stage(act):
        async def with_three_runs(stage):
            await stage.start(3)
            await act(stage, await stage.claim())

        play_on(lambda: open_store(f"sqlite:///{path}"), with_three_runs)

    return on_stage


def checkpoints_at(stage: Stage) -> int:
    """Pages in the log at which the writer's next commit carries them over."""
    [(pages,)] = stage.store._writer._link.use().connection.execute("PRAGMA wal_autocheckpoint")
    return pages


def test_a_turn_alone_is_committed_when_the_call_returns(play, path):
    async def act(stage, runs):
        asked = stage.store.commit_turns([turn(runs[0], b"mine")])
        assert asked.done()
        assert await asked == [True]
        with sqlite3.connect(path) as other:
            assert other.execute("SELECT data FROM journal").fetchall() == [(b"mine",)]
        other.close()

    play(act)


def test_a_turn_committed_on_the_loop_is_answered_as_on_the_thread(play):
    async def act(stage, runs):
        assert await stage.commit(turn(runs[0])) == [True]
        # The same again: its answer was lost.
        assert await stage.commit(turn(runs[0])) == [True]
        assert await stage.commit(turn(runs[0], b"another's", epoch=runs[0].epoch + 1)) == [False]
        assert await stage.commit(turn(runs[1], run_id="nobody")) == [False]
        assert [data for _, _, data in await stage.journal(runs[0].id)] == [b"turn"]

    play(act)


def test_several_turns_at_once_and_turns_that_change_a_run_go_to_the_thread(play):
    async def act(stage, runs):
        several = stage.store.commit_turns([turn(run) for run in runs[:2]])
        assert not several.done()
        assert await several == [True, True]
        stage.store._writer._pace = Pace()
        end = stage.store.commit_turns([turn(runs[2], change=RowChange(status=RunStatus.COMPLETED))])
        assert not end.done()
        assert await end == [True]

    play(act)


def test_a_commit_never_waits_on_the_loop_for_the_write_lock(play, path):
    async def act(stage, runs):
        with sqlite3.connect(path, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            asked = stage.store.commit_turns([turn(runs[0])])
            assert not asked.done()
            other.execute("COMMIT")
        other.close()
        assert await asked == [True]

    play(act)


def test_a_turn_alone_waits_behind_writes_already_in_line(play):
    async def act(stage, runs):
        writer = stage.store._writer
        with writer._using:
            asked = stage.store.commit_turns([turn(runs[0])])
            assert not asked.done()
            behind = stage.store.commit_turns([turn(runs[1])])
            assert not behind.done()
        assert await asked == await behind == [True]

    play(act)


def test_of_several_turns_asked_for_at_once_all_but_the_first_share_a_commit(play):
    async def act(stage, runs):
        commits = stage.store.stats.commits
        asked = [stage.store.commit_turns([turn(run)]) for run in runs]
        assert [one.done() for one in asked] == [True, False, False]
        assert await asyncio.gather(*asked) == [[True]] * 3
        assert stage.store.stats.commits - commits <= 3
        # The next turn of the loop is another one.
        assert stage.store.commit_turns([turn(runs[0], after=1)]).done()

    play(act)


def test_only_the_thread_checkpoints_the_log(play):
    async def act(stage, runs):
        assert checkpoints_at(stage) == 4000
        await stage.commit(turn(runs[0]))
        assert checkpoints_at(stage) == 0
        await stage.commit(*(turn(run) for run in runs[1:]))
        assert checkpoints_at(stage) == 4000

    play(act)


def test_a_commit_that_fails_on_the_loop_gets_its_error_from_the_thread(play):
    async def act(stage, runs):
        stage.store._writer._link.use().connection.execute("PRAGMA query_only = ON")
        with pytest.raises(StoreError):
            await stage.commit(turn(runs[0]))
        assert await stage.commit(turn(runs[0])) == [True]

    play(act)


def test_a_turn_after_a_slow_commit_goes_to_the_thread(path):
    async def main():
        stage = Stage(lambda: open_store(f"sqlite:///{path}"))
        await stage.store.open()
        await stage.start(2)
        first, second = await stage.claim()
        stage.store._writer._pace.took(1.0)
        asked = stage.store.commit_turns([turn(first)])
        assert not asked.done()
        assert await asked == [True]
        assert await stage.commit(turn(second)) == [True]
        await stage.close()

    asyncio.run(main())
