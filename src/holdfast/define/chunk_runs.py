"""A chunk of a map over a workflow: a run between the one that maps and those of the items, which are its children.

It is a run of a workflow of its own, which every worker serves on every queue that it serves. Such a worker need not
know the workflow of the items: a chunk run begins them by their name, and hands their arguments, results and errors on
as they are stored. So the run that maps has two entries a chunk in its journal, and the chunk run two an item.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, NoReturn

import msgspec

from holdfast.codec import Relayed, from_text
from holdfast.errors import DefinitionError, RunCancelled
from holdfast.model import NOT_GIVEN, Duration, Instant, NotGiven, instant_of, microseconds, moment_of

from .fan_out import fan_out
from .scope import body_for
from .workflows import AsyncWorkflow, StartOptions, Workflow

Outcome = tuple[list[str | None], dict[int, tuple[str, str]]]
"""The results of the first items in order, as they are stored, and what is to be said of those that failed."""
_FULL = 4
"""What part of the largest payload is enough, for items are still under way, and text inside text grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a chunk run is told beside its items: what to begin, how, and how many at a time."""

    workflow: str
    version: str
    queue: str
    share: int
    collects: bool
    room: int | None = None
    """How large its results may be together. Told, for the next worker may take payloads of another size."""
    delay: int | None = None
    due_at: Instant | None = None
    deadline: int | None = None
    deadline_at: Instant | None = None
    priority: int | None = None
    tags: dict[str, str] | None = None
    retention: int | None = None
    has_own_retention: bool = False
    on_parent_end: Literal["cancel", "abandon"] | None = None


class Unseen(AsyncWorkflow[..., Any]):
    """A workflow of which a chunk run knows the name, and what its runs are begun with.

    Its one argument is a call as text, and so are its results; a run of it that failed raises `Relayed`.
    """


class ChunkRuns(AsyncWorkflow[..., Any]):
    """The workflow of chunk runs; `home` is the module of the workflow that the items are of."""

    items: Workflow[..., Any]
    """The workflow that the items are of, where a body asks for such a run."""


def asked_of(order: Order, calls: list[str]) -> bytes:
    """What a body asks a chunk run for, to be compared on replay: what to call, and what failures mean.

    How the runs of the items are begun is none of it, as with any child, and may change under live runs.
    """
    parts = (msgspec.json.encode(order.workflow), msgspec.json.encode(order.collects), *map(from_text, calls))
    return b"[" + b",".join(parts) + b"]"


async def run_chunk(order: Order, calls: list[str]) -> Outcome:
    """The body of a chunk run.

    Its results are one value, which has a limit: when they are large, it begins no more items and ends with those that
    it has begun, which are the first ones. Another chunk run goes on with the others.
    """
    body = body_for("holdfast.map()")
    unseen = _unseen(order)
    todo = deque(range(len(calls)))
    results: list[str | None] = []
    failures: dict[int, tuple[str, str]] = {}
    room = body.max_payload // _FULL if order.room is None else order.room

    def begin(place: int, _slot: int) -> asyncio.Future[Any]:
        results.append(None)
        found: asyncio.Future[Any] = body.ask_child_run(unseen, (calls[place],), {})
        return found

    def take(place: int, future: asyncio.Future[Any]) -> None:
        nonlocal room
        try:
            result = results[place] = future.result()
            room -= len(result or "")
            if room < 0:
                todo.clear()
        except (Relayed, RunCancelled) as error:
            if not order.collects:
                # It is this run's own error then, and so the one of the run that maps.
                raise
            failures[place] = error.type if isinstance(error, Relayed) else type(error).__name__, str(error)

    await fan_out(todo, order.share, begin, take)
    return results, failures


CHUNK_RUNS = ChunkRuns(run_chunk, name="holdfast.map")
"""Known to every worker, on each of its queues."""


def orders_for(target: Workflow[..., Any], shares: list[int], collects: bool, max_payload: int) -> list[Order]:
    """What chunk runs are told, for each of these shares of the items under way."""
    options = target.start_options
    if options.id is not None or options.key is not None:
        raise DefinitionError(
            f"map({target.name}.options(id= or key=), ...): every item would be the same run; map without them"
        )
    delay, due_at = _when(options.delay)
    deadline, deadline_at = _when(options.deadline)
    first = Order(
        workflow=target.name,
        version=target.version,
        queue=options.queue or target.queue,
        share=1,
        collects=collects,
        room=max_payload // _FULL,
        delay=delay,
        due_at=due_at,
        deadline=target.deadline if options.deadline is None else deadline,
        deadline_at=deadline_at,
        priority=options.priority,
        tags=None if options.tags is None else dict(options.tags),
        retention=_retention(target),
        has_own_retention=not isinstance(options.retention, NotGiven),
        on_parent_end=options.on_parent_end,
    )
    return [replace(first, share=share) for share in shares]


def chunk_runs(target: Workflow[..., Any]) -> ChunkRuns:
    """The workflow of chunk runs, for items of this one: on its queue, where whoever serves it serves them, too."""
    options = target.start_options
    made = CHUNK_RUNS.options(
        queue=options.queue or target.queue, priority=options.priority, retention=_duration(_retention(target))
    )
    # Errors of the items are told by these runs: classes of `__main__` are looked for where the items' workflow is.
    made.home, made.items = target.home, target
    return made


def _unseen(order: Order) -> Unseen:
    delay = _duration(order.delay) if order.due_at is None else moment_of(order.due_at)
    deadline = _duration(order.deadline) if order.deadline_at is None else moment_of(order.deadline_at)
    retention = _duration(order.retention)
    return Unseen(
        _never,
        name=order.workflow,
        version=order.version,
        queue=order.queue,
        retention=retention,
        start_options=StartOptions(
            delay=delay,
            deadline=deadline,
            priority=order.priority,
            tags=order.tags,
            retention=retention if order.has_own_retention else NOT_GIVEN,
            on_parent_end=order.on_parent_end,
        ),
    )


async def _never() -> NoReturn:
    raise AssertionError("the workflow of an item is executed under its own name")


def _retention(target: Workflow[..., Any]) -> int | None:
    given = target.start_options.retention
    if isinstance(given, NotGiven):
        return target.retention
    return None if given is None else microseconds(given, what="retention")


def _when(asked: Duration | datetime | None) -> tuple[int | None, Instant | None]:
    """A duration, or a moment."""
    if isinstance(asked, datetime):
        return None, instant_of(asked, what="options")
    return (None if asked is None else microseconds(asked, what="options")), None


def _duration(found: int | None) -> timedelta | None:
    return None if found is None else timedelta(microseconds=found)
