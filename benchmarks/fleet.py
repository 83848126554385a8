"""The fleet: what several worker processes do together on one database, compared with half as many.

On two cores, two processes with empty steps leave hardly any processor time, so more of them can't do more, and the
machine charges for sharing its cores. Two measurements beside tell that apart from what the database costs: the same
fleet with steps that wait, as steps do that call other services, and as many processes that share no database at all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise

from holdfast import AsyncClient

from .children import started
from .databases import Engine, until_ended
from .figures import Figure, Target, compared, ratio_at_least
from .scales import Scale
from .subjects import four_steps

STEPS = 4
SIZES = (1, 2, 4)
_AT_ONCE = 100
_WRITTEN = 4_000
"""Runs that are surely written in a second. All of them become due at the same later moment, for all workers."""
_PAUSE = 0.02
"""Seconds that a step waits, if it waits: about what a call to another service takes."""
_AS_MANY = ratio_at_least(1, "1 ×")


def measure(scale: Scale, engine: Engine) -> list[Figure]:
    return asyncio.run(_measure(scale, engine))


async def _measure(scale: Scale, engine: Engine) -> list[Figure]:
    waiting = f"worker processes, steps that wait {_PAUSE * 1_000:g} ms"
    return [
        *await _by_size("worker processes", scale, scale.fleet, _AS_MANY, partial(_worked, engine, 0.0)),
        *await _by_size(waiting, scale, scale.fleet // 8, _AS_MANY, partial(_worked, engine, _PAUSE)),
        *await _by_size("processes that share nothing, in memory", scale, scale.fleet, None, _worked_alone),
    ]


async def _by_size(
    what: str, scale: Scale, runs: int, target: Target | None, worked: Callable[[int, int], Awaitable[float]]
) -> list[Figure]:
    found: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(scale.rounds):
        for size in SIZES:
            found[size].append(STEPS * runs / await worked(size, runs))
    return [
        compared(
            f"steps, {size} {what}",
            "steps/s",
            found[size],
            "one process" if half == 1 else f"{half} processes",
            found[half],
            target,
        )
        for half, size in pairwise(SIZES)
    ]


async def _worked(engine: Engine, pause: float, size: int, runs: int) -> float:
    """Seconds from the moment when the runs are due to the end of the last. By then the workers are there and idle."""
    place = await engine.place()
    body = four_steps(lambda: None)
    members = [await started("benchmarks.member", place.url, str(_AT_ONCE), str(pause)) for _ in range(size)]
    async with AsyncClient(place.url) as client:
        due_at = datetime.now(UTC) + timedelta(seconds=1 + runs / _WRITTEN)
        await client.start_many(body, [(number,) for number in range(runs)], delay=due_at)
    left = (due_at - datetime.now(UTC)).total_seconds()
    if left <= 0:
        raise RuntimeError(f"starting {runs:,} runs took longer than {1 + runs / _WRITTEN:g} s; lower _WRITTEN")
    await asyncio.sleep(left)
    began = time.perf_counter()
    await until_ended(place, pause=0.01)
    took = time.perf_counter() - began
    await asyncio.gather(*(member.end() for member in members))
    await place.forget()
    return took


async def _worked_alone(size: int, runs: int) -> float:
    """Seconds in which processes, each with a database of its own in memory, execute as many runs together."""
    members = [await started("benchmarks.loner", str(runs // size), str(_AT_ONCE)) for _ in range(size)]
    began = time.perf_counter()
    for member in members:
        member.tell()
    for member in members:
        await member.line()
    took = time.perf_counter() - began
    await asyncio.gather(*(member.end() for member in members))
    return took
