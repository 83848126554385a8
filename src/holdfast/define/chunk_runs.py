"""Chunk runs: a map over a workflow begins one for each chunk of its items, and it begins the items' runs as its
children.

A chunk run is a run of a workflow of its own, which every worker serves on every queue that it serves. The worker need
not know the workflow of the items: a chunk run begins it by name, and hands arguments, results and errors on as they
are stored. So the run that maps has two entries a chunk in its journal, and the chunk run two an item.
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
"""The stored results of the first items, in order, and the error class and message of each that failed, by its
place."""
_FULL = 4
"""A chunk run is full when its results take this part of the largest payload: items are still under way, and text
inside text grows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a chunk run is told beside its items: which runs to begin, how, and how many at a time."""

    workflow: str
    version: str
    queue: str
    share: int
    collects: bool
    room: int | None = None
    """How large its results may be together. It is told this, for its next worker may allow payloads of another
    size."""
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
    """The workflow of the items, as a chunk run knows it: by its name, and by how its runs are begun.

    Its one argument is a call as text, and its result is text, too. A failed run of it raises `Relayed`.
    """


class ChunkRuns(AsyncWorkflow[..., Any]):
    """The workflow of chunk runs; `home` is the module of the items' workflow."""

    items: Workflow[..., Any]
    """The workflow of the items. Known only where a body asks for a chunk run."""


def asked_of(order: Order, calls: list[str]) -> bytes:
    """The bytes of an ask for a chunk run that replay compares: what to call, and whether failures are collected.

    How the items' runs are begun is left out, as for any child, and may change under live runs.
    """
    parts = (msgspec.json.encode(order.workflow), msgspec.json.encode(order.collects), *map(from_text, calls))
    return b"[" + b",".join(parts) + b"]"


async def run_chunk(order: Order, calls: list[str]) -> Outcome:
    """The body of a chunk run.

    Its results are one value, whose size is limited: when they are large, it begins no more items and ends with those
    that it has begun, which are the first ones. Another chunk run goes on with the rest.
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
                # Then the error is this run's own, and so becomes the error of the run that maps.
                raise
            failures[place] = error.type if isinstance(error, Relayed) else type(error).__name__, str(error)

    await fan_out(todo, order.share, begin, take)
    return results, failures


CHUNK_RUNS = ChunkRuns(run_chunk, name="holdfast.map")
"""The one workflow that every worker knows, on each of its queues."""


def orders_for(target: Workflow[..., Any], shares: list[int], collects: bool, max_payload: int) -> list[Order]:
    """The orders of the chunk runs, one for each share of the items under way."""
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
    """The workflow of chunk runs for items of this workflow, on its queue: whoever serves that serves chunk runs,
    too."""
    options = target.start_options
    made = CHUNK_RUNS.options(
        queue=options.queue or target.queue, priority=options.priority, retention=_duration(_retention(target))
    )
    # These runs raise the errors of items, so classes of `__main__` are looked up where the items' workflow is.
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
