"""The ceiling: bare group commit, by the same driver, into the same table, of rows like the product's own.

Coroutines hand a row each to one writer and wait until it is committed; whatever is queued when a commit ends is the
next one. No engine, no codec, no steps, no claims: no program that journals from asyncio, a commit before the next
row, can be faster than this. The writers themselves are the databases' own.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator, Sequence

from holdfast.model import JournalRow

from .databases import Engine, Row, Writer

SKETCHED = {("SQLite", 100): 36_000, ("SQLite", 1000): 51_000, ("Postgres", 100): 24_000, ("Postgres", 1000): 31_000}
"""Steps a second that the sketch made with which the design began, by store and runs at once. A third was promised of
these, so they stand there, too, though nobody can measure them in the same run."""


async def ceiling(engine: Engine, journal: Sequence[JournalRow], at_once: int, runs: int) -> float:
    """Seconds by whichever way of inserting is faster."""
    gc.collect()
    return min([await group_commit(engine, journal, at_once, runs, way) for way in engine.ways])


async def group_commit(engine: Engine, journal: Sequence[JournalRow], writers: int, runs: int, way: str) -> float:
    """Seconds in which so many writers commit so many runs: row by row, each waiting for its commit."""
    place = await engine.place()
    writer = await place.writer(way)
    numbers = iter(range(1, runs + 1))
    began = time.perf_counter()
    await asyncio.gather(*(_write(writer, numbers, journal) for _ in range(writers)))
    took = time.perf_counter() - began
    await writer.stop()
    await place.forget()
    return took


async def _write(writer: Writer, numbers: Iterator[int], journal: Sequence[JournalRow]) -> None:
    for number in numbers:
        for row in journal:
            await writer.commit(_row(number, row))


async def bare(engine: Engine, journal: Sequence[JournalRow], batch: int, runs: int) -> float:
    """Seconds in which a plain loop commits the same rows in batches, by whichever way of inserting is faster."""
    rows = [_row(number, row) for number in range(1, runs + 1) for row in journal]
    took: list[float] = []
    for way in engine.ways:
        place = await engine.place()
        took.append(await place.bare(way, rows, batch))
        await place.forget()
    return min(took)


def _row(number: int, row: JournalRow) -> Row:
    return number, row.seq, row.epoch, row.at, row.data
