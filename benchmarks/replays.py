"""Replay: the cost of rebuilding a body from its journal, by the journal's length."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from holdfast.codec import Codec
from holdfast.define import RunInfo, Workflow
from holdfast.engine import Execution, Runners
from holdfast.model import (
    ClaimedRun,
    Entry,
    Lane,
    NewRun,
    Started,
    StepCompleted,
    decode_entries,
    encode_entries,
    history_of,
    new_id,
)
from holdfast.store import Store

from .databases import Engine
from .figures import Figure, at_most
from .scales import Scale
from .subjects import many_steps

_CODEC = Codec()
_SEED = b"sixteen bytes..."
_START = 1_700_000_000_000_000
_MOST = 2_000
"""Replays of one length: more would tell nothing new."""
_LEASE = 3_600_000_000
_REFERENCE = 100
"""The length with which the others are compared."""


@dataclass(frozen=True, slots=True)
class Journal:
    """A run of `length` steps that waits for one more: its turns, one row each, as a worker would write them."""

    length: int
    workflow: Workflow[[int], int]
    input: bytes
    rows: tuple[bytes, ...]

    def entries(self) -> list[Entry]:
        return [entry for row in self.rows for entry in decode_entries(row)]


def measure(scale: Scale) -> list[Figure]:
    """The engine alone, without a store."""
    alone = {length: _replayed(_journal(length), scale.replay_budget) for length in scale.replayed}
    return [_figure(f"replay, {length:,} steps", alone, length, promised=True) for length in scale.replayed]


def measure_claimed(scale: Scale, engine: Engine) -> list[Figure]:
    """Everything from the store on."""
    found = {length: asyncio.run(_claimed(engine, _journal(length), scale.replay_budget)) for length in scale.replayed}
    return [_figure(f"claim and replay, {length:,} steps", found, length, promised=False) for length in scale.replayed]


def _figure(name: str, costs: dict[int, float], length: int, *, promised: bool) -> Figure:
    return Figure(
        name=name,
        value=costs[length],
        unit="µs/step",
        beside=f"the same at {_REFERENCE} steps",
        beside_value=costs[_REFERENCE],
        ratio=costs[length] / costs[_REFERENCE],
        target=at_most(15, "µs") if promised else None,
    )


def _journal(length: int) -> Journal:
    """Act as the worker: answer every step that the body asks for, except the last."""
    workflow = many_steps(_nothing)
    input = _CODEC.seal(_CODEC.arguments(workflow.fn).pack((length + 1,), {}))
    body = _body(workflow, input)
    first = body.advance([Started(_START, _SEED)]).entries
    rows: list[bytes] = []
    result = _CODEC.result(next(iter(body.commands.values())).step.fn)
    for number in range(length):
        key = next(iter(body.commands))
        done = body.advance([StepCompleted(_START + 1_000 * (number + 1), key, 1, result.encode(number + 1))])
        # The second turn's row also holds what the first turn asked for.
        rows.append(encode_entries([*first, *done.entries]))
        first = []
    body.put_away()
    return Journal(length, workflow, input, tuple(rows))


def _body(workflow: Workflow[[int], int], input: bytes, runners: Runners | None = None) -> Execution:
    run = RunInfo(
        id="00000000-0000-7000-8000-000000000000",
        workflow=workflow.name,
        version=workflow.version,
        key=None,
        tags={},
        priority=0,
        chain_id="00000000-0000-7000-8000-000000000000",
        origin_id="00000000-0000-7000-8000-000000000000",
        parent_id=None,
        created_at=_START,
        started_at=_START,
        deadline_at=None,
    )
    return Execution(workflow, run, input, _SEED, _CODEC, runners or Runners())


def _replayed(journal: Journal, budget: float) -> float:
    """Microseconds a step, with the entries in memory."""
    entries = journal.entries()
    runners = Runners()
    took: list[float] = []
    ends = time.perf_counter() + budget
    gc.collect()
    while not took or (time.perf_counter() < ends and len(took) < _MOST):
        began = time.perf_counter()
        body = _body(journal.workflow, journal.input, runners)
        body.replay(entries)
        took.append(time.perf_counter() - began)
        assert len(body.commands) == 1
        body.put_away()
    return median(took) / journal.length * 1_000_000


async def _claimed(engine: Engine, journal: Journal, budget: float) -> float:
    """Microseconds a step for everything: claim the run, read its journal, decode it, replay it."""
    place = await engine.place()
    store = await place.opened()
    lanes = [Lane(journal.workflow.name, journal.workflow.version)]
    await store.register_worker("bench", lanes, _LEASE)
    runners = Runners()
    took: list[float] = []
    ends = time.perf_counter() + budget
    gc.collect()
    while not took or (time.perf_counter() < ends and len(took) < _MOST):
        await _start(store, journal)
        began = time.perf_counter()
        [claimed] = await store.claim_runs("bench", lanes, 1)
        body = _body(journal.workflow, claimed.input, runners)
        body.replay(history_of(_entries(claimed)).entries)
        took.append(time.perf_counter() - began)
        body.put_away()
    await store.close()
    await place.forget()
    return median(took) / journal.length * 1_000_000


async def _start(store: Store, journal: Journal) -> None:
    new = NewRun(
        id=new_id(),
        workflow=journal.workflow.name,
        version=journal.workflow.version,
        input=journal.input,
        seed=_SEED,
        rows=journal.rows,
    )
    await store.start_runs([new])


def _entries(claimed: ClaimedRun) -> Sequence[Entry]:
    return [entry for row in claimed.rows for entry in decode_entries(row.data)]


def _nothing() -> None:
    pass
