"""map: fan out over many items, results in order, at linear cost.

A chunk of items is one step, or one run that owns the child runs of its items: the journal grows with the chunks, so a
million items are a few thousand entries. A chunk of a step that was interrupted executes again whole; within it, an
item that fails is tried again as its step's policy says. A chunk run is a run like any other.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Literal, Protocol, TypeVar, cast, overload

from holdfast.codec import message_of
from holdfast.errors import DefinitionError

from .chunk_runs import chunk_runs, orders_for
from .chunks import chunk_step
from .covered import covered
from .fan_out import fan_out
from .pending import Pending
from .scope import Body, body_for
from .steps import Step
from .workflows import Workflow

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
R = TypeVar("R")
_MOST_IN_CHUNK = 1_000
_CHUNKS = 200
_FEWEST_RUNS = 100
"""Fewer child runs are not worth another chunk run."""
_CHUNK_RUNS = 4
_LARGEST_CHUNK = 256 * 1024
_CONCURRENCY = 10


@dataclass(frozen=True, slots=True)
class Failure:
    """The result of an item that failed for good, with `on_error="collect"`: the error's class and message, as text.

    It counts as false in a test: `[page for page in pages if page]` leaves failures out.
    """

    type: str
    message: str

    def __bool__(self) -> bool:
        return False


class OfOne(Protocol[T_contra, R]):
    """What `map` takes, as type checkers see it: a step or a workflow that can be called with one argument.

    Not a `Step[[T], R]`: pyright takes that for a function with exactly one parameter, and refuses a function with a
    second one that has a default.
    """

    def start(self, item: T_contra, /) -> Pending[R]: ...


@overload
def map(
    target: OfOne[T, R],
    items: Iterable[T],
    *,
    concurrency: int = _CONCURRENCY,
    on_error: Literal["stop"] = "stop",
    chunk: int | None = None,
) -> Coroutine[object, None, list[R]]: ...
@overload
def map(
    target: OfOne[T, R],
    items: Iterable[T],
    *,
    concurrency: int = _CONCURRENCY,
    on_error: Literal["collect"],
    chunk: int | None = None,
) -> Coroutine[object, None, list[R | Failure]]: ...
def map(
    target: OfOne[Any, Any],
    items: Iterable[Any],
    *,
    concurrency: int = _CONCURRENCY,
    on_error: Literal["stop", "collect"] = "stop",
    chunk: int | None = None,
) -> Coroutine[object, None, list[Any]]:
    """Call a step, or begin a child run, for each item; the results in the order of the items.

        pages = await holdfast.map(fetch, urls, concurrency=20)

    The first failure stops everything and is raised. With `on_error="collect"` a failed item gives a `Failure` in its
    place. Items are cut into chunks, each of which is one entry of the journal. `chunk` is the number of items in one;
    by default it grows with the number of items, up to a thousand, and shrinks with their size.

    For a step, `concurrency` is the number of chunks under way at once; the items of a chunk execute one after another.
    For a workflow it is the number of items under way at once. These are children of runs of `holdfast.map`, one for
    each chunk, which are the children of this run.

    On replay nothing that was recorded is executed. A chunk of a step that was under way when its process died executes
    again whole; each of its items keeps its `current_step().idempotency_key`. Only in a body: NotInRun outside any run,
    NotInBody in a step.

    Raises DefinitionError if the target is neither a step nor a workflow, if the items are a set, which has no order,
    or if an option does not fit, and BadArguments if an item does not fit the one argument; nothing has begun then.
    Raises PayloadTooLarge if the results of one chunk are too large together: give a smaller `chunk`.
    """
    body = body_for("holdfast.map()")
    work = mapped(body, target, items, concurrency, on_error, chunk)
    if body.is_blocking:
        return cast("Coroutine[object, None, list[Any]]", body.run_inside(work()))
    ticket = body.new_ticket()
    return body.track(_awaited(body, ticket, work), ticket, sys._getframe(1))


def mapped(
    body: Body,
    target: object,
    items: Iterable[Any],
    concurrency: int,
    on_error: str,
    chunk: int | None,
) -> Callable[[], Coroutine[Any, Any, list[Any]]]:
    """The work of a map whose arguments were found to be right. The coroutine is made only when the map is awaited."""
    if not isinstance(target, (Step, Workflow)):
        hint = covered(target, Step, Workflow) or "; decorate it with @step"
        raise DefinitionError(f"map({target!r}, ...): expected a step or a workflow{hint}")
    if isinstance(target, Step) and target.is_transactional:
        raise DefinitionError(
            f"map({target.name}, ...): the step {target.name!r} is transactional, and items of a map share one step; "
            "map a workflow that calls it, or call it for each item"
        )
    if on_error not in ("stop", "collect"):
        raise DefinitionError(f"map(on_error={on_error!r}): expected 'stop' or 'collect'")
    for what, number in (("concurrency", concurrency), ("chunk", chunk)):
        if number is None and what == "chunk":
            continue
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise DefinitionError(f"map({what}={number!r}): expected a whole number from 1")
    if not isinstance(items, Iterable):
        raise DefinitionError(
            f"map({target.name}, {items!r}): expected items to map over, such as a list, not {type(items).__name__}; "
            "for a single one, call it"
        )
    if isinstance(items, (set, frozenset)):
        # Tests would not notice, since they replay in the same process. After a crash the run could not go on at all.
        raise DefinitionError(
            f"map({target.name}, ...): expected items in an order, such as a list, not {type(items).__name__}, which "
            "may have another order in another process; map over sorted(items)"
        )
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
        return await _map_runs(body, target, items, concurrency, collects, chunk)
    step = chunk_step(target, collects)
    most = chunk if chunk is not None else min(_MOST_IN_CHUNK, -(-len(items) // _CHUNKS))
    chunks = _cut(items, [body.weigh(target, item) for item in items], most, is_by_weight=chunk is None)
    parts: list[Any] = [None] * len(chunks)

    def begin(place: int, _slot: int) -> asyncio.Future[Any]:
        found: asyncio.Future[Any] = body.ask_pending(step, (chunks[place],), {})
        return found

    def take(place: int, future: asyncio.Future[Any]) -> None:
        parts[place] = future.result()

    await fan_out(deque(range(len(chunks))), concurrency, begin, take)
    return [_told(result, failures.get(index)) for results, failures in parts for index, result in enumerate(results)]


async def _map_runs(
    body: Body, target: Workflow[..., Any], items: list[Any], concurrency: int, collects: bool, chunk: int | None
) -> list[Any]:
    """Map a workflow by chunk runs. Each has its share of `concurrency` as long as it is under way."""
    calls = [body.pack_call(target, item) for item in items]
    most = chunk if chunk is not None else min(_MOST_IN_CHUNK, max(_FEWEST_RUNS, -(-len(items) // _CHUNKS)))
    chunks = _cut(calls, [len(call) for call in calls], most, is_by_weight=chunk is None)
    shares = _shares(concurrency, len(chunks), max((len(part) for part in chunks), default=1))
    workflow, orders = chunk_runs(target), orders_for(target, shares, collects, body.max_payload)
    places = accumulate((len(part) for part in chunks), initial=0)
    todo = deque(zip(places, chunks, strict=False))
    results: list[Any] = [None] * len(calls)

    def begin(part: tuple[int, list[str]], slot: int) -> asyncio.Future[Any]:
        found: asyncio.Future[Any] = body.ask_child_run(workflow, (orders[slot], part[1]), {})
        return found

    def take(part: tuple[int, list[str]], future: asyncio.Future[Any]) -> None:
        first, asked = part
        try:
            texts, failures = future.result()
        except Exception as error:
            if not collects:
                raise
            # The chunk run itself failed, and not an item: somebody has cancelled it, or its results are too large
            # together.
            results[first : first + len(asked)] = [Failure(type(error).__name__, message_of(error))] * len(asked)
            return
        for index, text in enumerate(texts):
            told = Failure(*failures[index]) if index in failures else body.read_result(target, text)
            results[first + index] = told
        if len(texts) < len(asked):
            # The chunk run was full: another one goes on.
            todo.appendleft((first + len(texts), asked[len(texts) :]))

    await fan_out(todo, len(shares), begin, take)
    return results


def _shares(concurrency: int, chunks: int, largest: int) -> list[int]:
    """How many items each of the chunk runs under way at once may have under way: together `concurrency`.

    There are a few chunk runs, so that others go on while one waits for its last items; more if the chunks are small.
    """
    slots = max(1, min(chunks, concurrency, max(_CHUNK_RUNS, -(-concurrency // largest))))
    share, left = divmod(concurrency, slots)
    return [share + (slot < left) for slot in range(slots)]


def _told(result: Any, failure: Sequence[str] | None) -> Any:
    return result if failure is None else Failure(*failure)


def _cut(items: list[T], weights: list[int], most: int, *, is_by_weight: bool) -> list[list[T]]:
    """The items in chunks of at most `most` items; with `is_by_weight`, their weight is limited, too."""
    chunks: list[list[T]] = []
    weight = 0
    for item, heavy in zip(items, weights, strict=True):
        if not chunks or len(chunks[-1]) >= most or (is_by_weight and weight + heavy > _LARGEST_CHUNK):
            chunks.append([])
            weight = 0
        chunks[-1].append(item)
        weight += heavy
    return chunks
