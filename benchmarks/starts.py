"""From a start to its first step: how long until an idle worker, in this process or another, begins it."""

from __future__ import annotations

import asyncio
import random
import time
from itertools import count
from statistics import median

from holdfast import AsyncClient, Worker

from .children import started
from .databases import Engine, Writer
from .figures import Figure, Target, at_most, percentile
from .scales import Scale
from .subjects import one_step

PROMISED: dict[str, dict[int, Target]] = {
    "SQLite": {50: at_most(50, "ms")},
    "Postgres": {50: at_most(10, "ms"), 99: at_most(50, "ms")},
}
"""Targets across processes, by percentile."""


def measure(scale: Scale, engine: Engine) -> list[Figure]:
    return asyncio.run(_measure(scale, engine))


async def _measure(scale: Scale, engine: Engine) -> list[Figure]:
    place = await engine.place()
    raw = RawCommits(await place.writer(engine.handed))
    within = await _within(engine, scale.starts, raw)
    figures = _figures("within a process", within, raw, {})
    raw.took.clear()
    across = await _across(engine, scale.starts, raw)
    await raw.close()
    await place.forget()
    return [*figures, *_figures("across processes", across, raw, PROMISED[engine.name])]


def _figures(where: str, ours: list[float], raw: RawCommits, targets: dict[int, Target]) -> list[Figure]:
    beside = median(raw.took)
    return [
        Figure(
            name=f"start to first step, {where}, p{percent}",
            value=value,
            unit="ms",
            beside="two raw commits: start and claim",
            beside_value=beside,
            ratio=value / beside,
            target=targets.get(percent),
        )
        for percent in (50, 99)
        for value in [percentile(ours, percent)]
    ]


class RawCommits:
    """The unavoidable cost, in milliseconds: the start is a commit, and so is the claim."""

    def __init__(self, writer: Writer) -> None:
        self.took: list[float] = []
        self._numbers = count(1)
        self._writer = writer

    async def measure(self) -> None:
        """Time two commits, one after the other, by a writer that was idle before."""
        await _pause()
        began = time.perf_counter()
        for _ in range(2):
            await self._writer.commit((next(self._numbers), 0, 1, 1_700_000_000_000_000, b"x" * 100))
        self.took.append((time.perf_counter() - began) * 1_000)
        await _pause()

    async def close(self) -> None:
        await self._writer.stop()


async def _within(engine: Engine, times: int, raw: RawCommits) -> list[float]:
    place = await engine.place()
    store = await place.opened()
    begun: asyncio.Queue[int] = asyncio.Queue()
    body = one_step(lambda number: begun.put_nowait(time.time_ns()))
    client = AsyncClient(store)
    took: list[float] = []
    async with Worker(store, workflows=[body]):
        for number in range(times):
            await raw.measure()
            began = time.time_ns()
            await client.start(body, number)
            took.append((await begun.get() - began) / 1_000_000)
    await client.close()
    await store.close()
    await place.forget()
    return took


async def _across(engine: Engine, times: int, raw: RawCommits) -> list[float]:
    place = await engine.place()
    child = await started("benchmarks.listener", place.url)
    # Never called in this process: it only names the workflow that the listener executes.
    body = one_step(lambda number: None)
    took: list[float] = []
    async with AsyncClient(place.url) as client:
        for number in range(times):
            await raw.measure()
            began = time.time_ns()
            await client.start(body, number)
            took.append((int(await child.line()) - began) / 1_000_000)
    await child.end()
    await place.forget()
    return took


async def _pause() -> None:
    """Let the worker fall asleep again, at no fixed rhythm: a store that polls a file must not be hit in step."""
    await asyncio.sleep(0.02 + random.random() * 0.02)
