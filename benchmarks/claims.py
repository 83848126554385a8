"""Claims: what it costs to take runs from a database that also holds a great many parked and finished ones."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path

from holdfast import AsyncClient, Worker
from holdfast.define import Workflow
from holdfast.model import Lane, NewRun, new_id
from holdfast.store import SqliteStore

from .databases import connect, forget, new_path, opened, until_parked
from .figures import Figure, compared, ratio_at_most
from .scales import Scale
from .subjects import four_steps, sleeper

_LEASE = 3_600_000_000
_PART = 100_000
_WARM = 2
SIZES = (1, 100)
_CHANGED = {
    "runs": {
        "number": "numbers.number",
        "id": "printf('00000000-0000-7000-8000-%012x', numbers.number)",
        "due_at": "model.due_at + numbers.number",
    },
    "starts": {"number": "numbers.number"},
    "journal": {"run": "numbers.number"},
}
"""The columns in which a copy of a run differs from its model; the others are the model's."""
_NUMBER = {"runs": "number", "starts": "number", "journal": "run"}


@dataclass(slots=True)
class Backlog:
    """One database, what it is full of, and what was measured in it, in milliseconds."""

    count: int
    path: Path
    store: SqliteStore
    lane: Lane
    took: dict[str, list[float]] = field(default_factory=dict)

    def note(self, what: str, seconds: float) -> None:
        self.took.setdefault(what, []).append(seconds * 1_000)


def measure(scale: Scale, folder: Path) -> list[Figure]:
    return asyncio.run(_measure(scale, folder))


async def _measure(scale: Scale, folder: Path) -> list[Figure]:
    backlogs = [await _backlog(folder, count) for count in scale.backlogs]
    for number in range(_WARM + scale.claims):
        if number == _WARM:
            for backlog in backlogs:
                backlog.took.clear()
        for backlog in backlogs:
            await _claim(backlog)
    for backlog in backlogs:
        await backlog.store.close()
        forget(backlog.path)
    empty, *full = backlogs
    return [
        compared(
            f"{what}, {backlog.count:,} parked, {backlog.count:,} finished",
            "ms",
            backlog.took[what],
            "in an empty table",
            empty.took[what],
            ratio_at_most(2),
        )
        for what in empty.took
        for backlog in full
    ]


async def _claim(backlog: Backlog) -> None:
    store, lanes = backlog.store, [backlog.lane]
    new = [
        NewRun(id=new_id(), workflow=backlog.lane.workflow, version=backlog.lane.version, input=b"\x90", seed=bytes(16))
        for _ in range(sum(SIZES))
    ]
    await store.start_runs(new)
    for size in SIZES:
        began = time.perf_counter()
        claimed = await store.claim_runs("bench", lanes, size)
        backlog.note(f"claim of {size}", time.perf_counter() - began)
        assert len(claimed) == size
    began = time.perf_counter()
    await store.next_due(lanes)
    backlog.note("when is the next due", time.perf_counter() - began)


async def _backlog(folder: Path, count: int) -> Backlog:
    """A database with so many parked and as many finished runs, copied from one of each that the product made."""
    path = new_path(folder)
    store = await opened(path)
    parked = sleeper(is_async=True)
    finished = four_steps(_nothing)
    connection = connect(path)
    await _make_models(store, parked, finished, connection)
    for workflow in (parked, finished):
        _multiply(connection, workflow.name, count)
    # Both kinds stand in the lane that is claimed from.
    connection.execute(
        "UPDATE runs SET lane_id = (SELECT id FROM lanes WHERE workflow = ?) WHERE ended_at IS NOT NULL", (parked.name,)
    )
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    lane = Lane(parked.name, parked.version, parked.queue)
    await store.register_worker("bench", [lane], _LEASE)
    return Backlog(count, path, store, lane)


async def _make_models(
    store: SqliteStore, parked: Workflow[[int], int], finished: Workflow[[int], int], connection: sqlite3.Connection
) -> None:
    client = AsyncClient(store)
    async with Worker(store, workflows=[parked, finished]):
        for workflow in (parked, finished):
            await client.start(workflow, 1)
        await until_parked(connection)
    await client.close()


def _multiply(connection: sqlite3.Connection, workflow: str, count: int) -> None:
    """Copy the workflow's only run, whatever columns the schema gives it, so many times."""
    (model,) = connection.execute(
        "SELECT runs.number FROM runs JOIN lanes ON lanes.id = runs.lane_id WHERE lanes.workflow = ?", (workflow,)
    ).fetchone()
    (last,) = connection.execute("SELECT max(number) FROM runs").fetchone()
    connection.execute("PRAGMA synchronous = OFF")
    for first in range(last + 1, last + 1 + count, _PART):
        span = {"model": model, "first": first, "last": min(first + _PART - 1, last + count)}
        connection.execute("BEGIN IMMEDIATE")
        for table in _CHANGED:
            connection.execute(_copy(connection, table), span)
        connection.execute("COMMIT")
    connection.execute("PRAGMA synchronous = FULL")


def _copy(connection: sqlite3.Connection, table: str) -> str:
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    values = [_CHANGED[table].get(name, f"model.{name}") for name in columns]
    return (
        "WITH RECURSIVE numbers (number) AS "
        "(SELECT :first UNION ALL SELECT number + 1 FROM numbers WHERE number < :last) "
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} "
        f"FROM {table} AS model CROSS JOIN numbers WHERE model.{_NUMBER[table]} = :model"
    )


def _nothing() -> None:
    pass
