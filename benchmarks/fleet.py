"""The fleet: what several worker processes do together on one database, compared with half as many."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from holdfast import AsyncClient

from .children import started
from .databases import Engine, until_ended
from .figures import Figure, compared, ratio_at_least
from .scales import Scale
from .subjects import four_steps

STEPS = 4
SIZES = (1, 2, 4)
_AT_ONCE = 100
_AHEAD = 5.0
"""Seconds in which to write the runs. All of them become due at the same later moment, for all workers."""


def measure(scale: Scale, engine: Engine) -> list[Figure]:
    return asyncio.run(_measure(scale, engine))


async def _measure(scale: Scale, engine: Engine) -> list[Figure]:
    found: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(scale.rounds):
        for size in SIZES:
            found[size].append(STEPS * scale.fleet / await _worked(engine, size, scale.fleet))
    return [
        compared(
            f"steps, {size} worker processes",
            "steps/s",
            found[size],
            "one process" if half == 1 else f"{half} processes",
            found[half],
            ratio_at_least(1, "1 ×"),
        )
        for half, size in pairwise(SIZES)
    ]


async def _worked(engine: Engine, size: int, runs: int) -> float:
    """Seconds from the moment when the runs are due to the end of the last. By then the workers are there and idle."""
    place = await engine.place()
    body = four_steps(lambda: None)
    members = [await started("benchmarks.member", place.url, str(_AT_ONCE)) for _ in range(size)]
    async with AsyncClient(place.url) as client:
        due_at = datetime.now(UTC) + timedelta(seconds=_AHEAD)
        await client.start_many(body, [(number,) for number in range(runs)], delay=due_at)
    left = (due_at - datetime.now(UTC)).total_seconds()
    if left <= 0:
        raise RuntimeError(f"starting {runs:,} runs took longer than {_AHEAD:g} s; raise _AHEAD")
    await asyncio.sleep(left)
    began = time.perf_counter()
    await until_ended(place, pause=0.01)
    took = time.perf_counter() - began
    await asyncio.gather(*(member.end() for member in members))
    await place.forget()
    return took
