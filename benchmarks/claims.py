"""Claims: the cost of taking runs from a database that also holds very many parked and finished ones.

And the cost after many more runs were claimed and ended while another transaction held an old snapshot open: then the
database can't clear away what they left behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from holdfast.model import NewRun, RowChange, RunStatus, Turn, new_id

from .backlogs import Backlog, backlog
from .databases import Engine
from .figures import Figure, compared, ratio_at_most
from .scales import Scale

_WARM = 2
_BATCH = 100
SIZES = (1, 100)


def measure(scale: Scale, engine: Engine) -> list[Figure]:
    return asyncio.run(_measure(scale, engine))


async def _measure(scale: Scale, engine: Engine) -> list[Figure]:
    empty, *full = [await backlog(engine, count) for count in scale.backlogs]
    await _claim_in_turns(scale, [empty, *full])
    figures = [
        _figure(f"{what}, {one.count:,} parked, {one.count:,} finished", what, one, empty)
        for what in empty.took
        for one in full
    ]
    churned = [await backlog(engine, 0), full[-1]]
    held = [await one.place.hold() for one in churned]
    for one in churned:
        await _churn(one, scale.churned)
    await _claim_in_turns(scale, [empty, *churned])
    figures += [
        _figure(f"{what}, {_full(one)}, {scale.churned:,} claimed under a held snapshot", what, one, empty)
        for what in empty.took
        for one in churned
    ]
    for snapshot in held:
        await snapshot.close()
    for one in [empty, churned[0], *full]:
        await one.forget()
    return figures


def _full(one: Backlog) -> str:
    return f"{one.count:,} parked, {one.count:,} finished" if one.count else "none parked or finished"


def _figure(name: str, what: str, ours: Backlog, empty: Backlog) -> Figure:
    return compared(name, "ms", ours.took[what], "in an empty table", empty.took[what], ratio_at_most(2))


async def _claim_in_turns(scale: Scale, backlogs: Sequence[Backlog]) -> None:
    for number in range(_WARM + scale.claims):
        for one in backlogs:
            if number in (0, _WARM):
                one.took.clear()
            await _claim(one)


async def _claim(one: Backlog) -> None:
    store, lanes = one.store, [one.lane]
    await store.start_runs(_new_runs(one, sum(SIZES)))
    for size in SIZES:
        began = time.perf_counter()
        claimed = await store.claim_runs("bench", lanes, size)
        one.note(f"claim of {size}", time.perf_counter() - began)
        assert len(claimed) == size
    began = time.perf_counter()
    await store.next_due(lanes)
    one.note("when is the next due", time.perf_counter() - began)


async def _churn(one: Backlog, count: int) -> None:
    """Start, claim and end `count` runs."""
    for _ in range(0, count, _BATCH):
        await one.store.start_runs(_new_runs(one, _BATCH))
        claimed = await one.store.claim_runs("bench", [one.lane], _BATCH)
        ends = [
            Turn(
                run_id=run.id,
                seq=1,
                epoch=run.epoch,
                at=run.started_at,
                data=b"\x90",
                change=RowChange(status=RunStatus.COMPLETED),
            )
            for run in claimed
        ]
        assert all(await one.store.commit_turns(ends))


def _new_runs(one: Backlog, count: int) -> list[NewRun]:
    lane = one.lane
    return [
        NewRun(id=new_id(), workflow=lane.workflow, version=lane.version, input=b"\x90", seed=bytes(16))
        for _ in range(count)
    ]
