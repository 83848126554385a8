"""SQLite: files to measure in, and bare group commit by a writer thread with Holdfast's own settings.

One thread writes. Each coroutine hands it a row and waits until it is committed. One wake-up of the event loop answers
a whole batch.
"""

from __future__ import annotations

import asyncio
import queue
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.store import SqliteStore, open_store

from .databases import Row, answer

Insert: TypeAlias = Callable[[sqlite3.Connection, Sequence[Row]], None]
_numbers = count(1)
SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -32000",
    "PRAGMA wal_autocheckpoint = 4000",
)
"""The SQLite store's own settings: the ceiling must be that of the same database, not of another tuning."""
_ONE = "INSERT INTO journal (run, seq, epoch, at, data) VALUES (?, ?, ?, ?, ?)"
_LARGEST = 4096
_texts: dict[int, str] = {}


class SqliteFiles:
    """Files in one folder."""

    name = "SQLite"
    ways: tuple[str, ...] = ("each", "all")
    handed = "each"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def place(self) -> SqliteFile:
        home = self._folder / str(next(_numbers))
        home.mkdir()
        place = SqliteFile(home / "bench.db")
        store = await place.opened()
        await store.close()
        return place


class SqliteFile:
    """One file in its own folder. The raw connection is made when first needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        self._raw: sqlite3.Connection | None = None

    async def opened(self) -> SqliteStore:
        store = open_store(self.url)
        assert isinstance(store, SqliteStore)
        await store.open()
        return store

    async def ask(self, question: str) -> Sequence[object] | None:
        row: Sequence[object] | None = self._watch().execute(question).fetchone()
        return row

    async def columns(self, table: str) -> list[str]:
        return [row[1] for row in self._watch().execute(f"PRAGMA table_info({table})")]

    async def load(self, statements: Sequence[str]) -> None:
        raw = self._watch()
        raw.execute("PRAGMA synchronous = OFF")
        raw.execute("BEGIN IMMEDIATE")
        for statement in statements:
            raw.execute(statement)
        raw.execute("COMMIT")
        raw.execute("PRAGMA synchronous = FULL")

    async def settle(self) -> None:
        self._watch().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    async def hold(self) -> HeldFile:
        return HeldFile(connect(self.path))

    async def writer(self, way: str) -> ThreadWriter:
        return ThreadWriter(self.path, INSERTS[way])

    async def bare(self, way: str, rows: Sequence[Row], batch: int) -> float:
        insert, connection = INSERTS[way], connect(self.path)
        began = time.perf_counter()
        for start in range(0, len(rows), batch):
            insert(connection, rows[start : start + batch])
        took = time.perf_counter() - began
        connection.close()
        return took

    async def forget(self) -> None:
        if self._raw is not None:
            self._raw.close()
        shutil.rmtree(self.path.parent)

    def _watch(self) -> sqlite3.Connection:
        if self._raw is None:
            self._raw = connect(self.path)
        return self._raw


class HeldFile:
    """An open read transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM lanes").fetchone()

    async def close(self) -> None:
        self._connection.close()


def connect(path: Path) -> sqlite3.Connection:
    """A raw connection in autocommit mode."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
    for setting in SETTINGS:
        connection.execute(setting).fetchall()
    return connection


def insert_each(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Insert rows in one commit: one statement, executed for each row."""
    if len(rows) == 1:
        connection.execute(_ONE, rows[0])
        return
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_ONE, rows)
    connection.execute("COMMIT")


def insert_all(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Insert rows in one commit by one statement, padded with nulls to a power of two, so that its text is reused."""
    if len(rows) == 1:
        connection.execute(_ONE, rows[0])
        return
    size = 1 << (len(rows) - 1).bit_length()
    if size > _LARGEST:
        raise ValueError(f"{len(rows)} rows are too many for one statement; the most is {_LARGEST}")
    values: list[Any] = list(chain.from_iterable(rows))
    values.extend([None] * (size - len(rows)) * 5)
    connection.execute(_text(size), values)


INSERTS: dict[str, Insert] = {"each": insert_each, "all": insert_all}


def _text(size: int) -> str:
    text = _texts.get(size)
    if text is None:
        groups = ", ".join(["(?, ?, ?, ?, ?)"] * size)
        text = _texts[size] = (
            "INSERT INTO journal (run, seq, epoch, at, data) "
            f"SELECT column1, column2, column3, column4, column5 FROM (VALUES {groups}) WHERE column1 IS NOT NULL"
        )
    return text


class ThreadWriter:
    """A thread that commits whatever is queued."""

    def __init__(self, path: Path, insert: Insert) -> None:
        self._path = path
        self._insert = insert
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[tuple[Row, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="ceiling-writer", daemon=True)
        self._thread.start()

    async def commit(self, row: Row) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((row, future))
        await future

    async def stop(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        connection = connect(self._path)
        while True:
            found = [self._queue.get()]
            while not self._queue.empty():
                found.append(self._queue.get())
            batch = [one for one in found if one is not None]
            if batch:
                futures = [future for _, future in batch]
                try:
                    self._insert(connection, [row for row, _ in batch])
                except sqlite3.Error as error:
                    self._loop.call_soon_threadsafe(answer, futures, error)
                else:
                    self._loop.call_soon_threadsafe(answer, futures, None)
            if len(batch) < len(found):
                connection.close()
                return
