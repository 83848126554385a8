"""Databases to measure in, with Holdfast's own schema: what a measurement needs of SQLite and of Postgres.

An engine makes places. A place is one database for one measurement: Holdfast's store opens it, a raw connection watches
it from outside, and raw writers show what it can do without Holdfast. The same SQL works in both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from holdfast.model import JournalRow
from holdfast.store import Store
from holdfast.store.stats import Stats

PATIENCE = 300
"""Seconds after which a measurement without progress counts as broken."""

Row: TypeAlias = tuple[int, int, int, int, bytes]
"""A row of the journal: run, seq, epoch, at, data."""


class MeasuredStore(Store, Protocol):
    """A store that counts its statements."""

    stats: Stats


class Writer(Protocol):
    """Raw group commit: whatever is queued during a commit makes the next one."""

    async def commit(self, row: Row) -> None:
        """Returns when the row is durable."""

    async def stop(self) -> None: ...


class Snapshot(Protocol):
    """An open transaction that keeps the database from clearing away what it may see."""

    async def close(self) -> None: ...


class Place(Protocol):
    """One database with the schema."""

    url: str

    async def opened(self) -> MeasuredStore: ...

    async def ask(self, question: str) -> Sequence[object] | None:
        """The first row of an answer, asked over the raw connection."""

    async def columns(self, table: str) -> list[str]: ...

    async def load(self, statements: Sequence[str]) -> None:
        """Execute statements in one transaction that does not wait for the disk."""

    async def settle(self) -> None:
        """After a load: let the database do its cleaning now, and not while something is measured."""

    async def hold(self) -> Snapshot: ...

    async def writer(self, way: str) -> Writer: ...

    async def bare(self, way: str, rows: Sequence[Row], batch: int) -> float:
        """Seconds in which a plain loop commits these rows, `batch` at a time, and nobody waits for a row."""

    async def forget(self) -> None:
        """Free the disk, so that a round leaves nothing to the next one."""


class Engine(Protocol):
    """SQLite or Postgres."""

    name: str
    ways: tuple[str, ...]
    """The ways to insert a batch. All are tried, and the fastest is the ceiling."""
    handed: str
    """The way in which an event loop hands a row to another thread, as Holdfast's store does."""

    async def place(self) -> Place: ...


async def until_ended(place: Place, pause: float = 0.000_5) -> None:
    """Wait until every run has ended, by asking the database from outside."""
    await until(place, "SELECT NOT EXISTS (SELECT 1 FROM runs WHERE ended_at IS NULL)", pause)


async def until_parked(place: Place) -> None:
    """Wait until no run is under way: each has ended, or waits without an owner."""
    await until(
        place,
        "SELECT NOT EXISTS (SELECT 1 FROM runs WHERE ended_at IS NULL AND (status <> 'waiting' OR owner IS NOT NULL))",
    )


async def refuse_failures(place: Place) -> None:
    """Raise if a run has failed or is blocked: that was not to be measured."""
    found = await place.ask(
        "SELECT status, blocked FROM runs WHERE status IN ('failed', 'cancelled') OR blocked IS NOT NULL LIMIT 1"
    )
    if found is not None:
        raise RuntimeError(f"a measured run is {found[0]}: {found[1]}")


async def until(place: Place, question: str, pause: float = 0.02) -> None:
    """Wait until the answer is true. Raises if a run has failed or is blocked."""
    async with asyncio.timeout(PATIENCE):
        while not await number_of(place, question):  # noqa: ASYNC110  # a database wakes nobody up
            await asyncio.sleep(pause)
    await refuse_failures(place)


async def number_of(place: Place, question: str) -> int:
    """The answer to a question whose answer is one number."""
    row = await place.ask(question)
    assert row is not None
    assert isinstance(row[0], int)
    return row[0]


async def first_journal(store: Store, place: Place) -> list[JournalRow]:
    """The journal of the first run in the database, as an example of its rows."""
    row = await place.ask("SELECT id FROM runs ORDER BY number LIMIT 1")
    assert row is not None
    return await store.read_journal(str(row[0]))


def answer(futures: Sequence[asyncio.Future[None]], error: Exception | None) -> None:
    """Tell everybody whose row was in a batch how its commit ended."""
    for future in futures:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
