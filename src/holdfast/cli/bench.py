"""bench: a small benchmark of this machine on the chosen database. A rough idea, no number to publish."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass
from typing import Annotated

import typer

from holdfast.client import AsyncClient
from holdfast.define import step, workflow
from holdfast.model import RunFilter, new_id
from holdfast.settings import Settings
from holdfast.worker import Worker

from .options import Json, Place
from .output import print_json, print_line, print_note, spinner

_STEPS = 4
_PATIENCE = 600


@step(name="holdfast_bench_step")
async def _nothing(number: int) -> int:
    return number


@workflow(name="holdfast_bench", retention="1h")
async def _steps(count: int) -> int:
    total = 0
    for number in range(count):
        total += await _nothing(number)
    return total


@dataclass(frozen=True, slots=True)
class Figures:
    """The measured figures. A step's latency is that in a run that is alone."""

    runs: int
    steps_per_second: float
    runs_per_second: float
    step_ms_median: float
    step_ms_p95: float
    """The 95th percentile."""


def bench(
    *,
    runs: Annotated[int, typer.Option("--runs", help="How many runs of four steps.", min=10, max=100_000)] = 500,
    concurrency: Annotated[int, typer.Option("--concurrency", help="Runs that are active at once.", min=1)] = 100,
    place: Place,
    as_json: Json = False,
) -> None:
    """Measure steps a second and the latency of a step, on this machine and the chosen database.

    It is small: one worker in one process, empty steps, no other load. It uses a namespace of its own, and deletes its
    runs afterwards.
    """
    settings = place.settings()
    with spinner(f"{runs} runs of {_STEPS} steps"):
        figures = asyncio.run(_measure(settings, runs, concurrency))
    if as_json:
        print_json({name: round(getattr(figures, name), 3) for name in figures.__slots__})
        return
    print_line(f"throughput  {figures.steps_per_second:,.0f} steps/s, {figures.runs_per_second:,.0f} runs/s")
    print_line(f"latency     {figures.step_ms_median:.2f} ms a step (median), {figures.step_ms_p95:.2f} ms (95 %)")
    print_note(
        f"a small benchmark in one process: throughput of {runs} runs of {_STEPS} empty steps, {concurrency} at once, "
        "and latency of one run at a time. Your own figures depend on the work of your steps"
    )


async def _measure(settings: Settings, runs: int, concurrency: int) -> Figures:
    client = AsyncClient(
        settings.url, namespace=f"holdfast-bench-{new_id()[-12:]}", schema=settings.schema, migrate=settings.migrate
    )
    async with client:
        try:
            async with Worker(client, workflows=[_steps], concurrency=concurrency):
                # Warm up: connections, plans, files.
                await _time_runs(client, 10)
                alone = [await _step_latency(client) for _ in range(20)]
                took = await _time_runs(client, runs)
        finally:
            # Also after Ctrl-C: in this namespace nobody would ever end or delete the runs.
            await client.cancel(RunFilter(), force=True)
            await client.delete(RunFilter())
    latencies = sorted(one * 1_000 for one in alone)
    return Figures(
        runs=runs,
        steps_per_second=runs * _STEPS / took,
        runs_per_second=runs / took,
        step_ms_median=statistics.median(latencies),
        step_ms_p95=latencies[int(len(latencies) * 0.95)],
    )


async def _time_runs(client: AsyncClient, count: int) -> float:
    """Seconds from the start of this many runs to the end of the last."""
    began = time.perf_counter()
    handles = await client.start_many(_steps, [(_STEPS,)] * count)
    await asyncio.gather(*(one.result(timeout=_PATIENCE) for one in handles))
    return time.perf_counter() - began


async def _step_latency(client: AsyncClient) -> float:
    """Seconds a step takes in a run that is alone, by the times in its journal: without the start and the claim."""
    run = await client.start(_steps, 10 * _STEPS)
    await run.result(timeout=_PATIENCE)
    done = [entry.at for entry in await client.journal(run.id) if entry.kind == "step_completed"]
    return (done[-1] - done[0]).total_seconds() / (len(done) - 1)
