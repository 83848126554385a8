"""Databases to measure in, with the product's own schema: what a measurement asks of SQLite and of Postgres alike.

An engine makes places. A place is one database that nobody else uses: the product's store opens it, a raw connection
looks at it from outside, and raw writers show what it can do without Holdfast. The same SQL asks both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from holdfast.model import JournalRow
from holdfast.store import Store
from holdfast.store.stats import Stats

PATIENCE = 300
"""Seconds after which a measurement that does not get on is broken."""

Row: TypeAlias = tuple[int, int, int, int, bytes]
"""A row of the journal: run, seq, epoch, at, data."""


class MeasuredStore(Store, Protocol):
    """A store that counts what it does."""

    stats: Stats


class Writer(Protocol):
    """Raw group commit: whatever is queued while a commit is under way is the next one."""

    async def commit(self, row: Row) -> None:
        """Returns when the row is durable."""

    async def stop(self) -> None: ...


class Snapshot(Protocol):
    """A transaction that stays open and keeps the database as it was."""

    async def close(self) -> None: ...


class Place(Protocol):
    """One database with the schema in it."""

    url: str

    async def opened(self) -> MeasuredStore: ...

    async def ask(self, question: str) -> Sequence[object] | None:
        """The first row of an answer, as somebody outside gets it."""

    async def columns(self, table: str) -> list[str]: ...

    async def load(self, statements: Sequence[str]) -> None:
        """Execute them in one transaction that does not wait for the disk."""

    async def settle(self) -> None:
        """After a load: let the database do now what it would otherwise do while something is measured."""

    async def hold(self) -> Snapshot: ...

    async def writer(self, way: str) -> Writer: ...

    async def bare(self, way: str, rows: Sequence[Row], batch: int) -> float:
        """Seconds in which a plain loop commits these rows, so many at a time, with nobody waiting for any of them."""

    async def forget(self) -> None:
        """Give the disk back: a round leaves nothing to the next one."""


class Engine(Protocol):
    """SQLite or Postgres."""

    name: str
    ways: tuple[str, ...]
    """To insert a batch. All are tried; the fastest is the ceiling."""
    handed: str
    """The way in which an event loop hands a row to another thread, as the product's store does."""

    async def place(self) -> Place: ...


async def until_ended(place: Place, pause: float = 0.000_5) -> None:
    """Wait until every run has ended. The database is asked, as somebody outside would see it."""
    await _until(place, "SELECT NOT EXISTS (SELECT 1 FROM runs WHERE ended_at IS NULL)", pause)
    await refuse_failures(place)


async def until_parked(place: Place) -> None:
    """Wait until no run is under way: each has ended, or waits without an owner."""
    await _until(
        place,
        "SELECT NOT EXISTS (SELECT 1 FROM runs WHERE ended_at IS NULL AND (status <> 'waiting' OR owner IS NOT NULL))",
        0.02,
    )
    await refuse_failures(place)


async def refuse_failures(place: Place) -> None:
    """A run that failed or is blocked is not what was to be measured."""
    found = await place.ask(
        "SELECT status, blocked FROM runs WHERE status IN ('failed', 'cancelled') OR blocked IS NOT NULL LIMIT 1"
    )
    if found is not None:
        raise RuntimeError(f"a measured run is {found[0]}: {found[1]}")


async def _until(place: Place, question: str, pause: float) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await number_of(place, question):  # noqa: ASYNC110  # a database wakes nobody up
            await asyncio.sleep(pause)


async def number_of(place: Place, question: str) -> int:
    """The answer to a question that has one number for an answer."""
    row = await place.ask(question)
    assert row is not None
    assert isinstance(row[0], int)
    return row[0]


async def first_journal(store: Store, place: Place) -> list[JournalRow]:
    """The journal of the first run in the database: what a row looks like."""
    row = await place.ask("SELECT id FROM runs ORDER BY number LIMIT 1")
    assert row is not None
    return await store.read_journal(str(row[0]))


def answer(futures: Sequence[asyncio.Future[None]], error: Exception | None) -> None:
    """Tell everybody whose row was in a batch how it ended."""
    for future in futures:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
