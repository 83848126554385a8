"""A SQLite file that somebody reads for long: the log beside it can't be emptied meanwhile, and grows."""

import asyncio
import sqlite3

from holdfast.store import open_store
from holdfast.testing.contract.stage import Stage, turn

ROW = b"x" * 200_000


def test_the_log_that_a_long_reader_made_grow_is_short_again_when_it_has_gone(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.store.sqlite.connections.LIMIT_LOG", "PRAGMA journal_size_limit = 1000000")
    path, log = tmp_path / "holdfast.db", tmp_path / "holdfast.db-wal"

    async def act():
        stage = Stage(lambda **options: open_store(f"sqlite:///{path}", **options))
        await stage.store.open()
        run = await stage.held()
        reader = sqlite3.connect(path, isolation_level=None)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (1,)
        for number in range(100):
            assert await stage.commit(turn(run, ROW, after=number)) == [True]
        assert log.stat().st_size > 20_000_000
        reader.execute("COMMIT")
        reader.close()
        # The first write behind it empties the log, and the next one begins it anew.
        for number in range(100, 103):
            assert await stage.commit(turn(run, ROW, after=number)) == [True]
        assert log.stat().st_size < 2_000_000
        assert len(await stage.journal(run.id)) == 103
        await stage.close()

    asyncio.run(act())
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
