"""A step alone: what it costs when nothing else is there to share a commit with, beside a raw commit."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from holdfast import AsyncClient, Worker
from holdfast.model import JournalRow

from .ceiling import bare, group_commit, insert_each
from .databases import connect, first_journal, forget, new_path, opened, prepared
from .figures import Figure, compared, ratio_at_most
from .scales import Scale
from .subjects import many_steps

_OFTEN = 3
"""A round takes a tenth of a second, so there can be more of them."""


def measure(scale: Scale, folder: Path) -> list[Figure]:
    return asyncio.run(_measure(scale, folder))


async def _measure(scale: Scale, folder: Path) -> list[Figure]:
    ours: list[float] = []
    drivers: list[float] = []
    threads: list[float] = []
    count = scale.steps
    _, journal = await _work(folder, 3)
    # One row in the middle of a run: an answer taken in, the next step asked for.
    row = journal[1:2]
    for _ in range(scale.rounds * _OFTEN):
        drivers.append(await _driver(folder, row, count) / count * 1_000)
        took, _ = await _work(folder, count)
        ours.append(took * 1_000)
        threads.append(await group_commit(folder, row, 1, count, insert_each) / count * 1_000)
    return [
        compared("a step alone", "ms", ours, "raw commit, plain driver", drivers, ratio_at_most(1.5)),
        compared("a step alone", "ms", ours, "raw commit, writer thread", threads, ratio_at_most(1.5)),
    ]


async def _driver(folder: Path, row: list[JournalRow], count: int) -> float:
    path = await prepared(folder)
    took = bare(path, row, 1, count, insert_each)
    forget(path)
    return took


async def _work(folder: Path, count: int) -> tuple[float, list[JournalRow]]:
    """Seconds from one step to the next, in a run alone in its worker, and its journal."""
    path = new_path(folder)
    store = await opened(path)
    begun: list[float] = []
    body = many_steps(lambda: begun.append(time.perf_counter()))
    client = AsyncClient(store)
    async with Worker(store, workflows=[body], concurrency=1):
        run = await client.start(body, count)
        await run.result(timeout=120)
    watch = connect(path)
    journal = await first_journal(store, watch)
    watch.close()
    await client.close()
    await store.close()
    forget(path)
    return (begun[-1] - begun[0]) / (len(begun) - 1), journal
