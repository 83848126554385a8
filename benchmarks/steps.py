"""A step alone: its cost when it shares no commit with others, compared with a raw commit."""

from __future__ import annotations

import asyncio
import time

from holdfast import AsyncClient, Worker
from holdfast.model import JournalRow

from .ceiling import bare
from .databases import Engine, first_journal
from .figures import Figure, compared, ratio_at_most
from .scales import Scale
from .subjects import many_steps


def measure(scale: Scale, engine: Engine) -> list[Figure]:
    return asyncio.run(_measure(scale, engine))


async def _measure(scale: Scale, engine: Engine) -> list[Figure]:
    ours: list[float] = []
    drivers: list[float] = []
    count = scale.steps
    _, journal = await _work(engine, 3)
    # A row from the middle of a run: a result taken in, the next step asked for.
    row = journal[1:2]
    for _ in range(scale.alone):
        drivers.append(await bare(engine, row, 1, count) / count * 1_000)
        took, _ = await _work(engine, count)
        ours.append(took * 1_000)
    return [compared("a step alone", "ms", ours, "raw commit, plain driver", drivers, ratio_at_most(1.5))]


async def _work(engine: Engine, count: int) -> tuple[float, list[JournalRow]]:
    """Seconds from one step to the next in a run that is alone in its worker, and the run's journal."""
    place = await engine.place()
    store = await place.opened()
    begun: list[float] = []
    body = many_steps(lambda: begun.append(time.perf_counter()))
    client = AsyncClient(store)
    async with Worker(store, workflows=[body], concurrency=1):
        run = await client.start(body, count)
        await run.result(timeout=120)
    journal = await first_journal(store, place)
    await client.close()
    await store.close()
    await place.forget()
    return (begun[-1] - begun[0]) / (len(begun) - 1), journal
