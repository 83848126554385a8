"""map: fan out over many items, results in order, at linear cost.

A chunk of items is one step and one entry of the journal: a million items are a few thousand commits. A chunk that was
interrupted runs again whole. An item that fails is tried again within its chunk, as its step's policy says.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar, cast, overload

from holdfast.errors import DefinitionError

from .chunks import chunk_step
from .scope import Body, body_for
from .steps import AsyncStep, BlockingStep, Step
from .workflows import Workflow

T = TypeVar("T")
R = TypeVar("R")
_MOST_IN_CHUNK = 1_000
_CHUNKS = 200
_LARGEST_CHUNK = 256 * 1024
_CONCURRENCY = 10


@dataclass(frozen=True, slots=True)
class Failure:
    """What came of an item that failed for good, with `on_error="collect"`. It is false."""

    type: str
    message: str

    def __bool__(self) -> bool:
        return False


@overload
def map(
    target: AsyncStep[[T], R] | BlockingStep[[T], R] | Workflow[[T], R],
    items: Iterable[T],
    *,
    concurrency: int = _CONCURRENCY,
    on_error: Literal["stop"] = "stop",
    chunk: int | None = None,
) -> Coroutine[Any, Any, list[R]]: ...
@overload
def map(
    target: AsyncStep[[T], R] | BlockingStep[[T], R] | Workflow[[T], R],
    items: Iterable[T],
    *,
    concurrency: int = _CONCURRENCY,
    on_error: Literal["collect"],
    chunk: int | None = None,
) -> Coroutine[Any, Any, list[R | Failure]]: ...
def map(
    target: Step[..., Any] | Workflow[..., Any],
    items: Iterable[Any],
    *,
    concurrency: int = _CONCURRENCY,
    on_error: Literal["stop", "collect"] = "stop",
    chunk: int | None = None,
) -> Coroutine[Any, Any, list[Any]]:
    """Call a step, or begin a child run, for each item; the results in the order of the items.

        pages = await holdfast.map(fetch, urls, concurrency=20)

    `concurrency` is how many chunks are under way at once, and the items of a chunk follow one another. `chunk` is how
    many items one entry of the journal stands for; by default it grows with their number, up to a thousand, and shrinks
    with their size. The first failure stops everything and is raised; with `on_error="collect"` a failed item gives a
    `Failure` in its place.
    """
    body = body_for("holdfast.map()")
    work = mapped(body, target, items, concurrency, on_error, chunk)
    if body.is_blocking:
        return cast("Coroutine[Any, Any, list[Any]]", body.run_inside(work()))
    ticket = body.new_ticket()
    return body.track(_awaited(body, ticket, work), ticket, sys._getframe(1))


def mapped(
    body: Body,
    target: Step[..., Any] | Workflow[..., Any],
    items: Iterable[Any],
    concurrency: int,
    on_error: str,
    chunk: int | None,
) -> Callable[[], Coroutine[Any, Any, list[Any]]]:
    """What a map does, once its arguments are found to be right. It is a coroutine only when it is awaited."""
    if not isinstance(target, (Step, Workflow)):
        raise DefinitionError(f"map({target!r}, ...): expected a step or a workflow; decorate it with @step")
    if on_error not in ("stop", "collect"):
        raise DefinitionError(f"map(on_error={on_error!r}): expected 'stop' or 'collect'")
    for what, number in (("concurrency", concurrency), ("chunk", chunk)):
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise DefinitionError(f"map({what}={number!r}): expected a whole number from 1")
    given = list(items)
    return partial(_map, body, target, given, concurrency, on_error == "collect", chunk)


async def _awaited(body: Body, ticket: int, work: Callable[[], Coroutine[Any, Any, list[Any]]]) -> list[Any]:
    body.redeem(ticket)
    return await work()


async def _map(
    body: Body,
    target: Step[..., Any] | Workflow[..., Any],
    items: list[Any],
    concurrency: int,
    collects: bool,
    chunk: int | None,
) -> list[Any]:
    if isinstance(target, Workflow):
        return await _in_order(
            [lambda item=item: [body.ask_child_run(target, (item,), {})] for item in items],  # type: ignore[misc]
            concurrency,
            collects,
        )
    step = chunk_step(target, collects)
    chunks = _chunked(body, target, items, chunk)
    parts = await _in_order(
        [lambda part=part: [body.ask_pending(step, (part,), {})] for part in chunks],  # type: ignore[misc]
        concurrency,
        False,
    )
    return [_told(result, failures.get(index)) for results, failures in parts for index, result in enumerate(results)]


def _told(result: Any, failure: Sequence[str] | None) -> Any:
    return result if failure is None else Failure(*failure)


async def _in_order(
    begins: Sequence[Callable[[], list[asyncio.Future[Any]]]], concurrency: int, collects: bool
) -> list[Any]:
    """Begin each in turn, so many at a time; what each came to, in order. Whatever ends it calls off the others."""
    open_places: dict[asyncio.Future[Any], int] = {}
    try:
        return await _each(begins, concurrency, collects, open_places)
    finally:
        for one in open_places:
            one.cancel()


async def _each(
    begins: Sequence[Callable[[], list[asyncio.Future[Any]]]],
    concurrency: int,
    collects: bool,
    open_places: dict[asyncio.Future[Any], int],
) -> list[Any]:
    results: list[Any] = [None] * len(begins)
    place = 0
    while place < len(begins) or open_places:
        while place < len(begins) and len(open_places) < concurrency:
            [future] = begins[place]()
            open_places[future] = place
            place += 1
        done, _ = await asyncio.wait(open_places, return_when=asyncio.FIRST_COMPLETED)
        for future in sorted(done, key=lambda one: open_places[one]):
            index = open_places.pop(future)
            error = future.exception()
            if error is None:
                results[index] = future.result()
            elif collects and isinstance(error, Exception):
                results[index] = Failure(type(error).__name__, str(error))
            else:
                raise error
    return results


def _chunked(body: Body, target: Step[..., Any], items: list[Any], size: int | None) -> list[list[Any]]:
    """Items in chunks: as many as were asked for, else as their number and weight suggest."""
    most = size if size is not None else min(_MOST_IN_CHUNK, -(-len(items) // _CHUNKS))
    chunks: list[list[Any]] = []
    weight = 0
    for item in items:
        heavy = body.weigh(target, item)
        if not chunks or len(chunks[-1]) >= most or (size is None and weight + heavy > _LARGEST_CHUNK):
            chunks.append([])
            weight = 0
        chunks[-1].append(item)
        weight += heavy
    return chunks
