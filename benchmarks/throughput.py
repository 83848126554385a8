"""Throughput: steps and runs a second, by how many runs are at once, compared with bare group commit."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from typing import NamedTuple

from holdfast import AsyncClient, Worker
from holdfast.model import JournalRow
from holdfast.observe import Observer

from .ceiling import SKETCHED, bare, ceiling
from .databases import PATIENCE, Engine, first_journal, until_ended
from .figures import Figure, compared, ratio_at_least
from .scales import Scale
from .subjects import four_steps

STEPS = 4
_PROMISED = 100
"""The promise about throughput holds from this many runs at once on; below, a step's latency was promised."""


def measure(scale: Scale, engine: Engine) -> list[Figure]:
    return asyncio.run(_measure(scale, engine))


async def _measure(scale: Scale, engine: Engine) -> list[Figure]:
    figures: list[Figure] = []
    journal = (await work(engine, 1, 1)).journal
    for at_once, runs in scale.runs.items():
        figures += await _at_once(scale, engine, journal, at_once, runs)
    return figures


async def _at_once(scale: Scale, engine: Engine, journal: list[JournalRow], at_once: int, runs: int) -> list[Figure]:
    ours: list[float] = []
    ceilings: list[float] = []
    bares: list[float] = []
    for _ in range(scale.rounds):
        ceilings.append(STEPS * runs / await ceiling(engine, journal, at_once, runs))
        ours.append(STEPS * runs / (await work(engine, at_once, runs)).took)
        bares.append(STEPS * runs / await bare(engine, journal, at_once, runs))
    title = f"{at_once} at once" if at_once > 1 else "1 at a time"
    target = ratio_at_least(1 / 3, "1/3") if at_once >= _PROMISED else None
    besides = [("raw group commit", ceilings)]
    if (sketched := SKETCHED.get((engine.name, at_once))) is not None:
        besides.insert(0, ("the design's sketch", [sketched] * len(ours)))
    return [
        *(compared(f"steps, {title}", "steps/s", ours, beside, theirs, target) for beside, theirs in besides),
        compared(f"steps, {title}", "steps/s", ours, "bare driver, no concurrency", bares),
        compared(
            f"runs, {title}",
            "runs/s",
            [each / STEPS for each in ours],
            "raw group commit",
            [each / STEPS for each in ceilings],
        ),
    ]


class Work(NamedTuple):
    """Seconds from the worker's start to the last run's end, processor seconds of these, and one run's journal."""

    took: float
    busy: float
    journal: list[JournalRow]


async def work(engine: Engine, at_once: int, runs: int, observers: Sequence[Observer] = ()) -> Work:
    """Execute runs of four steps."""
    place = await engine.place()
    store = await place.opened()
    left = runs
    last_step = asyncio.Event()

    def done() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            last_step.set()

    body = four_steps(done)
    client = AsyncClient(store)
    await client.start_many(body, [(number,) for number in range(runs)])
    gc.collect()
    began, begun = time.perf_counter(), time.process_time()
    async with Worker(store, workflows=[body], concurrency=at_once, observers=observers):
        async with asyncio.timeout(PATIENCE):
            await last_step.wait()
        # The last steps have executed, but their results are still on the way into the journal.
        await until_ended(place)
        took, busy = time.perf_counter() - began, time.process_time() - begun
    journal = await first_journal(store, place)
    await client.close()
    await store.close()
    await place.forget()
    return Work(took, busy, journal)
