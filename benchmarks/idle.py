"""Idle: what a worker asks of the database and of the processor while nothing is to be done."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import NamedTuple

from holdfast import AsyncClient, Worker

from .databases import connect, forget, new_path, opened, until_parked
from .figures import Figure
from .scales import Scale
from .subjects import sleeper

_SETTLE = 0.5


class Idleness(NamedTuple):
    """A second of doing nothing."""

    queries: float
    processor: float
    """Percent of one core."""


def measure(scale: Scale, folder: Path) -> list[Figure]:
    nothing = asyncio.run(_watched(folder, 0, scale.idle))
    parked = asyncio.run(_watched(folder, scale.parked, scale.idle))
    title = f"an idle worker, {scale.parked:,} runs parked"
    return [
        Figure(
            name=name,
            value=value,
            unit=unit,
            beside="nothing parked",
            beside_value=beside,
            ratio=value / beside if beside else None,
        )
        for name, unit, value, beside in (
            (f"{title}: queries", "/s", parked.queries, nothing.queries),
            (f"{title}: processor", "%", parked.processor, nothing.processor),
        )
    ]


async def _watched(folder: Path, count: int, seconds: float) -> Idleness:
    path = new_path(folder)
    store = await opened(path)
    client = AsyncClient(store)
    workflow = sleeper(is_async=True)
    watch = connect(path)
    async with Worker(store, workflows=[workflow]):
        await client.start_many(workflow, [(number,) for number in range(count)])
        await until_parked(watch)
        await asyncio.sleep(_SETTLE)
        queries, processor, began = store.stats.statements, time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        took = time.perf_counter() - began
        found = Idleness((store.stats.statements - queries) / took, (time.process_time() - processor) / took * 100)
    watch.close()
    await client.close()
    await store.close()
    forget(path)
    return found
