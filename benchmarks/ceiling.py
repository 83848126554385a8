"""The ceiling: bare group commit, by the same driver, into the same table, of rows like the product's own.

One thread writes. Coroutines hand it a row each and wait until it is committed; whatever is queued when a commit ends
is the next one; one wake-up of the event loop answers all of them. No engine, no codec, no steps, no claims: no
program that journals from asyncio into SQLite, a commit before the next row, can be faster than this.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.model import JournalRow

from .databases import connect, forget, prepared

Row: TypeAlias = tuple[int, int, int, int, bytes]
Insert: TypeAlias = Callable[[sqlite3.Connection, Sequence[Row]], None]
_ONE = "INSERT INTO journal (run, seq, epoch, at, data) VALUES (?, ?, ?, ?, ?)"
_LARGEST = 4096
_texts: dict[int, str] = {}


def insert_each(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """One commit, a statement executed once for each row."""
    if len(rows) == 1:
        connection.execute(_ONE, rows[0])
        return
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(_ONE, rows)
    connection.execute("COMMIT")


def insert_all(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """One commit, one statement for all rows, padded with nulls up to a power of two so that its text is known."""
    if len(rows) == 1:
        connection.execute(_ONE, rows[0])
        return
    size = 1 << (len(rows) - 1).bit_length()
    if size > _LARGEST:
        raise ValueError(f"{len(rows)} rows are too many for one statement; the most is {_LARGEST}")
    values: list[Any] = list(chain.from_iterable(rows))
    values.extend([None] * (size - len(rows)) * 5)
    connection.execute(_text(size), values)


INSERTS: tuple[Insert, ...] = (insert_each, insert_all)


def _text(size: int) -> str:
    text = _texts.get(size)
    if text is None:
        groups = ", ".join(["(?, ?, ?, ?, ?)"] * size)
        text = _texts[size] = (
            "INSERT INTO journal (run, seq, epoch, at, data) "
            f"SELECT column1, column2, column3, column4, column5 FROM (VALUES {groups}) WHERE column1 IS NOT NULL"
        )
    return text


class GroupCommit:
    """The writer thread. `commit` returns when the row is durable."""

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

    def stop(self) -> None:
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
                    self._loop.call_soon_threadsafe(_fail, futures, error)
                else:
                    self._loop.call_soon_threadsafe(_settle, futures)
            if len(batch) < len(found):
                connection.close()
                return


def _settle(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        future.set_result(None)


def _fail(futures: list[asyncio.Future[None]], error: Exception) -> None:
    for future in futures:
        future.set_exception(error)


async def group_commit(folder: Path, journal: Sequence[JournalRow], writers: int, runs: int, insert: Insert) -> float:
    """Seconds in which so many writers commit so many runs: row by row, each waiting for its commit."""
    path = await prepared(folder)
    writer = GroupCommit(path, insert)
    numbers = iter(range(1, runs + 1))
    began = time.perf_counter()
    await asyncio.gather(*(_write(writer, numbers, journal) for _ in range(writers)))
    took = time.perf_counter() - began
    writer.stop()
    forget(path)
    return took


async def _write(writer: GroupCommit, numbers: Iterator[int], journal: Sequence[JournalRow]) -> None:
    for number in numbers:
        for row in journal:
            await writer.commit((number, row.seq, row.epoch, row.at, row.data))


def bare(path: Path, journal: Sequence[JournalRow], batch: int, runs: int, insert: Insert) -> float:
    """Seconds in which a plain loop commits the same rows in batches: no coroutines, no second thread."""
    rows = [(number, row.seq, row.epoch, row.at, row.data) for number in range(1, runs + 1) for row in journal]
    connection = connect(path)
    began = time.perf_counter()
    for start in range(0, len(rows), batch):
        insert(connection, rows[start : start + batch])
    took = time.perf_counter() - began
    connection.close()
    return took
