"""From a start to its first step: how long until an idle worker, in this process or another one, has begun."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from itertools import count
from pathlib import Path
from statistics import median

from holdfast import AsyncClient, Worker

from .ceiling import GroupCommit, insert_each
from .databases import forget, new_path, opened, prepared, url_of
from .figures import Figure, Target, at_most, percentile
from .scales import Scale
from .subjects import one_step

ROOT = Path(__file__).parent.parent


def measure(scale: Scale, folder: Path) -> list[Figure]:
    return asyncio.run(_measure(scale, folder))


async def _measure(scale: Scale, folder: Path) -> list[Figure]:
    raw = RawCommits(await prepared(folder))
    within = await _within(folder, scale.starts, raw)
    figures = _figures("within a process", within, raw, None)
    raw.took.clear()
    across = await _across(folder, scale.starts, raw)
    raw.close()
    return [*figures, *_figures("across processes", across, raw, at_most(50, "ms"))]


def _figures(where: str, ours: list[float], raw: RawCommits, target: Target | None) -> list[Figure]:
    beside = median(raw.took)
    return [
        Figure(
            name=f"start to first step, {where}, p{percent}",
            value=value,
            unit="ms",
            beside="two raw commits: start and claim",
            beside_value=beside,
            ratio=value / beside,
            target=target if percent == 50 else None,
        )
        for percent in (50, 99)
        for value in [percentile(ours, percent)]
    ]


class RawCommits:
    """What can't be saved, in milliseconds: the start is a commit, and so is the claim."""

    def __init__(self, path: Path) -> None:
        self.took: list[float] = []
        self._path = path
        self._numbers = count(1)
        self._writer = GroupCommit(path, insert_each)

    async def measure(self) -> None:
        """Two commits, one after the other, by a writer that had nothing to do before."""
        await _pause()
        began = time.perf_counter()
        for _ in range(2):
            await self._writer.commit((next(self._numbers), 0, 1, 1_700_000_000_000_000, b"x" * 100))
        self.took.append((time.perf_counter() - began) * 1_000)
        await _pause()

    def close(self) -> None:
        self._writer.stop()
        forget(self._path)


async def _within(folder: Path, times: int, raw: RawCommits) -> list[float]:
    path = new_path(folder)
    store = await opened(path)
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
    forget(path)
    return took


async def _across(folder: Path, times: int, raw: RawCommits) -> list[float]:
    path = await prepared(folder)
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "benchmarks.listener", url_of(path)),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    # Never called in this process: it only names what the listener executes.
    body = one_step(lambda number: None)
    took: list[float] = []
    assert await child.stdout.readline() == b"ready\n"
    async with AsyncClient(url_of(path)) as client:
        for number in range(times):
            await raw.measure()
            began = time.time_ns()
            await client.start(body, number)
            took.append((int(await child.stdout.readline()) - began) / 1_000_000)
    child.stdin.close()
    await child.wait()
    forget(path)
    return took


async def _pause() -> None:
    """Let the worker fall asleep again, and keep clear of the rhythm of whoever looks at a file every so often."""
    await asyncio.sleep(0.02 + random.random() * 0.02)
