"""Idle: what a worker asks of the database and the processor while there is nothing to do."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from holdfast import AsyncClient, Worker

from .databases import Engine, until_parked
from .figures import Figure, at_most
from .scales import Scale
from .subjects import sleeper

_SETTLE = 0.5


class Idleness(NamedTuple):
    """What one idle second costs."""

    queries: float
    processor: float
    """Percent of one core."""


def measure(scale: Scale, engine: Engine) -> list[Figure]:
    nothing = asyncio.run(_watched(engine, 0, scale.idle))
    parked = asyncio.run(_watched(engine, scale.parked, scale.idle))
    title = f"an idle worker, {scale.parked:,} runs parked"
    return [
        Figure(
            name=name,
            value=value,
            unit=unit,
            beside="nothing parked",
            beside_value=beside,
            ratio=value / beside if beside else None,
            target=target,
        )
        for name, unit, value, beside, target in (
            (f"{title}: queries", "/s", parked.queries, nothing.queries, at_most(5, "/s")),
            (f"{title}: processor", "%", parked.processor, nothing.processor, None),
        )
    ]


async def _watched(engine: Engine, count: int, seconds: float) -> Idleness:
    place = await engine.place()
    store = await place.opened()
    client = AsyncClient(store)
    workflow = sleeper(is_async=True)
    async with Worker(store, workflows=[workflow]):
        await client.start_many(workflow, [(number,) for number in range(count)])
        await until_parked(place)
        await asyncio.sleep(_SETTLE)
        queries, processor, began = store.stats.statements, time.process_time(), time.perf_counter()
        await asyncio.sleep(seconds)
        took = time.perf_counter() - began
        found = Idleness((store.stats.statements - queries) / took, (time.process_time() - processor) / took * 100)
    await client.close()
    await store.close()
    await place.forget()
    return found
