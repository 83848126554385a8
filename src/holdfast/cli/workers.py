"""worker, workers, workflows: run workers, and list them and what they serve."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Annotated

import typer

from holdfast.worker import Interrupts, Worker

from .fleet import Fleet
from .options import Json, Place, Targets
from .output import print_json, print_line, print_table
from .plan import ServingPlan, plan_of, set_up_logging
from .serving import Ready, find, serve

_log = logging.getLogger("holdfast.worker")


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def worker(
    targets: Targets = None,
    *,
    place: Place,
    queues: Annotated[
        str | None, typer.Option("--queues", help="Take only runs from these queues.", metavar="A,B")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", help="Runs that are active at once in a process. [default: 100]")
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", help="Threads for `def` steps in a process. [default: 32]")
    ] = None,
    processes: Annotated[int | None, typer.Option("--processes", help="Worker processes. [default: 1]")] = None,
    lease: Annotated[
        str | None, typer.Option("--lease", help="How long a silent worker keeps its runs. [default: 30s]")
    ] = None,
    grace: Annotated[
        str | None, typer.Option("--grace", help="How long steps may go on after SIGTERM. [default: 20s]")
    ] = None,
    log_level: Annotated[LogLevel, typer.Option("--log-level", help="How much to log, to stderr.")] = LogLevel.INFO,
) -> None:
    """Claim runs and take their turns, until SIGTERM or Ctrl-C.

    A worker that is told to stop lets steps end within the grace period and hands everything else back at once.
    """
    settings = place.settings(
        queues=queues, concurrency=concurrency, threads=threads, processes=processes, lease=lease, grace=grace
    )
    plan = plan_of(settings, targets or (), log_level)
    set_up_logging(plan.log_level)
    if settings.processes == 1:
        _serve_here(plan)
        return
    if os.name != "posix":
        raise typer.BadParameter(
            "several processes are started only where there are POSIX signals; start `holdfast worker` several times",
            param_hint="--processes",
        )
    raise typer.Exit(asyncio.run(_serve_fleet(plan, settings.processes)))


def workers(*, place: Place, as_json: Json = False) -> None:
    """List the live workers."""
    with place.client() as client:
        found = client.workers()
    if as_json:
        print_json(
            [
                {
                    **{name: getattr(one, name) for name in ("id", "host", "pid", "started_at", "renewed_at")},
                    "lease_until": one.lease_until,
                    "lanes": [
                        {"workflow": lane.workflow, "version": lane.version, "queue": lane.queue} for lane in one.lanes
                    ],
                }
                for one in found
            ]
        )
        return
    if not found:
        print_line("no worker is alive; start one: holdfast worker")
        return
    print_table(
        ["ID", "HOST", "PID", "STARTED", "LAST HEARD OF", "WORKFLOWS"],
        [
            [
                *(one.id, one.host, one.pid, one.started_at, one.renewed_at),
                ", ".join(sorted({lane.workflow for lane in one.lanes})),
            ]
            for one in found
        ],
    )


def workflows(*, place: Place, as_json: Json = False) -> None:
    """List all workflows that were ever registered or started, with their runs by status."""
    with place.client() as client:
        found = client.workflows()
    if as_json:
        print_json([{"name": one.name, "versions": one.versions, "counts": one.counts} for one in found])
        return
    if not found:
        print_line("no workflow is known; a worker registers those that it serves: holdfast worker")
        return
    statuses = list(Counter(status for one in found for status in one.counts))
    print_table(
        ["WORKFLOW", "VERSIONS", *(status.upper() for status in statuses)],
        [[one.name, ", ".join(one.versions), *(one.counts.get(status, 0) for status in statuses)] for one in found],
    )


def _serve_here(plan: ServingPlan) -> None:
    found = find(plan)
    asyncio.run(serve(plan, found, ready=_announcing("the worker is"), stopped_by=_signals))


async def _serve_fleet(plan: ServingPlan, size: int) -> int:
    return await Fleet(plan, size, ready=_announcing(f"{size} worker processes are")).run()


def _announcing(who: str) -> Callable[[Ready], None]:
    return lambda ready: print_line(f"{who} ready for {', '.join(ready.workflows)} on {ready.url}")


@contextlib.contextmanager
def _signals(worker: Worker) -> Iterator[None]:
    """The first SIGTERM or SIGINT stops the worker in good order, a second one at once."""

    def stop() -> None:
        _log.info("stopping: no more claims, steps in flight may end")
        worker.stop()

    def leave() -> None:
        _log.warning("a second signal: leaving without grace")
        worker.leave()

    loop = asyncio.get_running_loop()
    signalled = Interrupts(stop, leave, _log)
    for number in (signal.SIGTERM, signal.SIGINT):
        # Windows has no such handlers; there Ctrl-C cancels the running task, which also stops the worker.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, signalled)
    yield
