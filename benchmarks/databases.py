"""Files to measure in, with the product's own schema, and raw connections to them with the product's own settings."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from itertools import count
from pathlib import Path

from holdfast.model import JournalRow
from holdfast.store import SqliteStore, open_store

_numbers = count(1)
SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -32000",
    "PRAGMA wal_autocheckpoint = 4000",
)
"""What the SQLite store sets: the ceiling is that of the same database, not of one tuned otherwise."""

PATIENCE = 300
"""Seconds after which a measurement that does not get on is broken."""


def new_path(folder: Path) -> Path:
    """A file that is not there yet, in a folder of its own."""
    home = folder / str(next(_numbers))
    home.mkdir()
    return home / "bench.db"


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


async def opened(path: Path) -> SqliteStore:
    """The product's store on the file; a new file gets its schema."""
    store = open_store(url_of(path))
    assert isinstance(store, SqliteStore)
    await store.open()
    return store


async def prepared(folder: Path) -> Path:
    """A new file with the schema in it, closed again."""
    path = new_path(folder)
    store = await opened(path)
    await store.close()
    return path


def connect(path: Path) -> sqlite3.Connection:
    """A raw connection in autocommit mode."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
    for setting in SETTINGS:
        connection.execute(setting).fetchall()
    return connection


def forget(path: Path) -> None:
    """Give the disk back: a round leaves nothing to the next one."""
    shutil.rmtree(path.parent)


async def until_ended(connection: sqlite3.Connection) -> None:
    """Wait until every run has ended. The database is asked, as somebody outside would see it."""
    await _until(connection, "SELECT NOT EXISTS (SELECT 1 FROM runs WHERE ended_at IS NULL)", 0.000_5)
    refuse_failures(connection)


async def until_parked(connection: sqlite3.Connection) -> None:
    """Wait until no run is under way: each has ended, or waits without an owner."""
    await _until(
        connection,
        "SELECT NOT EXISTS (SELECT 1 FROM runs WHERE ended_at IS NULL AND (status <> 'waiting' OR owner IS NOT NULL))",
        0.02,
    )
    refuse_failures(connection)


def refuse_failures(connection: sqlite3.Connection) -> None:
    """A run that failed or is blocked is not what was to be measured."""
    found = connection.execute(
        "SELECT status, blocked FROM runs WHERE status IN ('failed', 'cancelled') OR blocked IS NOT NULL LIMIT 1"
    ).fetchone()
    if found is not None:
        raise RuntimeError(f"a measured run is {found[0]}: {found[1]}")


async def _until(connection: sqlite3.Connection, question: str, pause: float) -> None:
    async with asyncio.timeout(PATIENCE):
        while not connection.execute(question).fetchone()[0]:  # noqa: ASYNC110  # a file wakes nobody up
            await asyncio.sleep(pause)


async def first_journal(store: SqliteStore, connection: sqlite3.Connection) -> list[JournalRow]:
    """The journal of the first run in the file: what a row looks like."""
    (run_id,) = connection.execute("SELECT id FROM runs ORDER BY number LIMIT 1").fetchone()
    return await store.read_journal(run_id)
