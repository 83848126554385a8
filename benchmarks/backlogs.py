"""Databases full of parked and finished runs: copies, made in SQL, of a parked and a finished run that a worker made.

So they look as the schema says that such runs look. All are in the lane from which runs are claimed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast import AsyncClient, Worker
from holdfast.define import Workflow
from holdfast.model import Lane
from holdfast.store import Store

from .databases import Engine, MeasuredStore, Place, number_of, until_parked
from .subjects import four_steps, sleeper

_LEASE = 3_600_000_000
_PART = 100_000
_CHANGED = {
    "runs": {
        "number": "numbers.number",
        "id": "'00000000-0000-7000-8000-' || substr(cast(1000000000000 + numbers.number AS text), 2)",
        "due_at": "model.due_at + numbers.number",
    },
    "starts": {"number": "numbers.number"},
    "journal": {"run": "numbers.number"},
}
"""The columns in which a copy of a run differs from its model."""
_NUMBER = {"runs": "number", "starts": "number", "journal": "run"}


@dataclass(slots=True)
class Backlog:
    """A database full of runs, and what was measured in it, in milliseconds."""

    count: int
    place: Place
    store: MeasuredStore
    lane: Lane
    took: dict[str, list[float]] = field(default_factory=dict)

    def note(self, what: str, seconds: float) -> None:
        self.took.setdefault(what, []).append(seconds * 1_000)

    async def forget(self) -> None:
        await self.store.close()
        await self.place.forget()


async def backlog(engine: Engine, count: int) -> Backlog:
    """Make a database with `count` parked and as many finished runs."""
    place = await engine.place()
    store = await place.opened()
    parked = sleeper(is_async=True)
    finished = four_steps(lambda: None)
    await _make_models(store, parked, finished, place)
    lane_id = await number_of(place, f"SELECT id FROM lanes WHERE workflow = '{parked.name}'")
    for workflow in (parked, finished):
        await _multiply(place, workflow.name, count, lane_id)
    await place.settle()
    lane = Lane(parked.name, parked.version, parked.queue)
    await store.register_worker("bench", [lane], _LEASE)
    return Backlog(count, place, store, lane)


async def _make_models(
    store: Store, parked: Workflow[[int], int], finished: Workflow[[int], int], place: Place
) -> None:
    client = AsyncClient(store)
    async with Worker(store, workflows=[parked, finished]):
        for workflow in (parked, finished):
            await client.start(workflow, 1)
        await until_parked(place)
    await client.close()


async def _multiply(place: Place, workflow: str, count: int, lane_id: int) -> None:
    """Copy the workflow's only run `count` times, whatever columns the schema gives it."""
    model = await number_of(
        place,
        f"SELECT runs.number FROM runs JOIN lanes ON lanes.id = runs.lane_id WHERE lanes.workflow = '{workflow}'",
    )
    last = await number_of(place, "SELECT max(number) FROM runs")
    for first in range(last + 1, last + 1 + count, _PART):
        span = (first, min(first + _PART - 1, last + count))
        await place.load([await _copy(place, table, model, span, lane_id) for table in _CHANGED])


async def _copy(place: Place, table: str, model: int, span: tuple[int, int], lane_id: int) -> str:
    changed = {**_CHANGED[table], "lane_id": str(lane_id)}
    columns = await place.columns(table)
    values = [changed.get(name, f"model.{name}") for name in columns]
    return (
        "WITH RECURSIVE numbers (number) AS "
        f"(SELECT {span[0]} UNION ALL SELECT number + 1 FROM numbers WHERE number < {span[1]}) "
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} "
        f"FROM {table} AS model CROSS JOIN numbers WHERE model.{_NUMBER[table]} = {model}"
    )
