"""The ceiling: bare group commit, with the same driver, into the same table, of rows like Holdfast's own.

Each coroutine hands a row to one writer and waits until it is committed. Whatever is queued when a commit ends makes
the next one. There is no engine, codec, step or claim. A program that journals from asyncio, and commits each row
before the next, can't be faster. Each database has its own writers.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator, Sequence

from holdfast.model import JournalRow

from .databases import Engine, Row, Writer

SKETCHED = {("SQLite", 100): 36_000, ("SQLite", 1000): 51_000, ("Postgres", 100): 24_000, ("Postgres", 1000): 31_000}
"""Steps a second of the sketch with which the design began, by store and runs at once. A third of these was promised,
so they are shown as well, though nobody can measure them in the same run."""


async def ceiling(engine: Engine, journal: Sequence[JournalRow], at_once: int, runs: int) -> float:
    """Seconds by the fastest way of inserting."""
    gc.collect()
    return min([await group_commit(engine, journal, at_once, runs, way) for way in engine.ways])


async def group_commit(engine: Engine, journal: Sequence[JournalRow], writers: int, runs: int, way: str) -> float:
    """Seconds in which `writers` coroutines commit these runs row by row, each waiting for its commit."""
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
    """Seconds in which a plain loop commits the same rows in batches, by the fastest way of inserting."""
    rows = [_row(number, row) for number in range(1, runs + 1) for row in journal]
    took: list[float] = []
    for way in engine.ways:
        place = await engine.place()
        took.append(await place.bare(way, rows, batch))
        await place.forget()
    return min(took)


def _row(number: int, row: JournalRow) -> Row:
    return number, row.seq, row.epoch, row.at, row.data
