"""A chunk of a map over a step: one step that calls the mapped step's function for several items, one after the other.

It is one step and one entry of the journal. Each item has its own attempts and its own timeout, as its step says.
Results are undone item by item: if one item fails for good, the results before it are recorded with the failure.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import queue
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.codec import message_of
from holdfast.errors import StepTimeout
from holdfast.model import NO_RETRY, SECOND, spoken

from .failures import pause_after
from .scope import StepInfo, current_scope
from .steps import AsyncStep, BlockingStep, Step

Outcome = tuple[list[Any], dict[int, tuple[str, str]]]
"""The results of the items in order, and the error class and message of each that failed, by its place."""


def chunk_step(target: Step[..., Any], collects: bool) -> Step[..., Any]:
    """The step that executes a chunk of a step's items."""
    made: dict[bool, Step[..., Any]] = target.__dict__.setdefault("chunk_steps", {})
    if collects not in made:
        cls: type[_AsyncChunk | _BlockingChunk] = _AsyncChunk if target.is_async else _BlockingChunk
        chunk = async_chunk if target.is_async else blocking_chunk
        fn = chunk(target, collects, target.fn)
        fn.__annotations__ = target.chunk_hints()
        # The name that errors give it.
        fn.__qualname__ = f"{target.name}.map"
        # It has no timeout of its own, since each item has one.
        step = made[collects] = cls(
            fn,
            name=f"{target.name}.map",
            retry=NO_RETRY,
            record_args=target.record_args,
            compensate=target.compensate,
        )
        step.target, step.collects = target, collects
    return made[collects]


def chunked(step: Step[..., Any]) -> tuple[Step[..., Any], bool] | None:
    """The step that a chunk executes for its items, and whether it collects failures; None if this step is no chunk."""
    return (step.target, step.collects) if isinstance(step, (_AsyncChunk, _BlockingChunk)) else None


def _done_items(outcome: Outcome) -> list[Any]:
    results, failures = outcome
    return [result for index, result in enumerate(results) if index not in failures]


class _AsyncChunk(AsyncStep[..., Any]):
    target: Step[..., Any]
    collects: bool

    def to_undo(self, result: Any) -> list[Any]:
        return _done_items(result)


class _BlockingChunk(BlockingStep[..., Any]):
    target: Step[..., Any]
    collects: bool

    def to_undo(self, result: Any) -> list[Any]:
        return _done_items(result)


class _Item(StepInfo):
    """What one item of a chunk sees as its step: the chunk, with an attempt, a deadline and an idempotency key of its
    own."""

    __slots__ = ("_chunk", "_is_late", "_place", "said")

    def __init__(self, chunk: StepInfo, attempt: int, ends: datetime | None, place: int, said: Any) -> None:
        self._chunk = chunk
        self._place = place
        self.said = said
        """The heartbeat details that the item gave last, in this attempt or an earlier one."""
        super().__init__(chunk.name, chunk.key, attempt, chunk.run, chunk.resources, said)
        # The deadline of the chunk is the run's.
        self.deadline = min((one for one in (ends, chunk.deadline) if one is not None), default=None)

    @property
    def idempotency_key(self) -> str:
        # By the item's place: a chunk that executes again has the same items, and two of them may be equal.
        return f"{self._chunk.idempotency_key}#{self._place}"

    @property
    def whole(self) -> StepInfo:
        return self._chunk

    @property
    def cancelled(self) -> bool:
        return self._is_late or self._chunk.cancelled

    @cancelled.setter
    def cancelled(self, is_late: bool) -> None:
        self._is_late = is_late

    def heartbeat(self, details: Any = None) -> None:
        self._chunk.heartbeat(details)
        if details is not None:
            # A copy, as for any other step: what the function does to its object later was not said.
            self.said = copy.deepcopy(details)

    def send_value(self, name: str, value: Any) -> None:
        if not self._is_late:
            self._chunk.send_value(name, value)

    def send_item(self, name: str, item: Any) -> None:
        if not self._is_late:
            self._chunk.send_item(name, item)


class Pace:
    """How time passes for the items of a chunk. Tests pass their own."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1_000

    async def sleep(self, pause: int) -> None:
        """Wait until an item may be tried again."""
        await asyncio.sleep(pause / SECOND)

    def block(self, pause: int) -> None:
        """As `sleep`, in a thread."""
        time.sleep(pause / SECOND)

    def limit(self, timeout: int | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """The time limit of one attempt of an item."""
        return asyncio.timeout(None if timeout is None else timeout / SECOND)


_PACE = Pace()


class _Items:
    """The outcome of a chunk's items so far."""

    def __init__(self, target: Step[..., Any], collects: bool, pace: Pace, items: list[Any]) -> None:
        self.pace = pace
        self.timeout = target.timeout
        self._target = target
        self._collects = collects
        self._given: list[Any] | None = None
        self._is_alone = len(items) == 1
        self.begin()
        self.outcome: Outcome = ([], {})
        self.info: StepInfo | None = current_scope.get()
        if self.info is not None and target.compensate is not None:
            # However the chunk fails, the results in here by then can be undone.
            self.info.done = self.outcome

    def begin(self) -> None:
        """Turn to the next item."""
        self._failed = 0
        self._began = self.pace.monotonic()
        self._last: _Item | None = None

    def item(self) -> _Item | None:
        """The step as the current item's next attempt sees it."""
        if self.info is None:
            return None
        ends = None if self.timeout is None else self.pace.now() + timedelta(microseconds=self.timeout)
        said = None
        if self._last is not None:
            said = self._last.said
        elif self._is_alone:
            # Otherwise it may be another item that said this in the chunk's last attempt.
            said = self.info.heartbeat_details
        self._last = _Item(self.info, self._failed + 1, ends, len(self.outcome[0]), said)
        return self._last

    def after(self, error: BaseException) -> int | None:
        """The pause until the item is tried again; None if it has failed for good and the chunk goes on."""
        self._failed += 1
        spent = self.pace.monotonic() - self._began
        error, pause = pause_after(error, self._target.retry, self._failed, spent, 0.5)
        if pause is None and not self._collects:
            if self.info is not None:
                self.info.is_spent = True
            raise error
        if pause is None:
            results, failures = self.outcome
            failures[len(results)] = type(error).__name__, message_of(error)
            results.append(None)
        return pause

    def again(self, item: Any) -> Any:
        """The item as it was given, for the next attempt: a failed attempt may have changed its own copy."""
        if self._given is None and self.info is not None:
            # Decoded once for all items that fail. Each attempt gets a copy.
            self._given = self.info.items_anew()
        return item if self._given is None else copy.deepcopy(self._given[len(self.outcome[0])])

    def late(self) -> StepTimeout:
        assert self._target.timeout is not None
        return StepTimeout(
            f"an item of the step {self._target.name!r} did not end within its timeout of "
            f"{spoken(self._target.timeout)}"
        )


def async_chunk(
    target: Step[..., Any], collects: bool, fn: Callable[..., Any], pace: Pace = _PACE
) -> Callable[..., Any]:
    """A function that calls `fn` for each item, as the step says. `fn` is the step's function, or a test's stand-in."""

    async def chunk(items: Any) -> Any:
        done = _Items(target, collects, pace, items)
        for one in items:
            item = one
            done.begin()
            while True:
                try:
                    done.outcome[0].append(await _in_time(fn, item, done))
                    break
                except BaseException as error:
                    if _is_of_all(error) or (isinstance(error, asyncio.CancelledError) and _is_cancelled()):
                        raise
                    pause = done.after(error)
                    if pause is None:
                        break
                    await pace.sleep(pause)
                    item = done.again(item)
        return done.outcome

    return chunk


def _is_of_all(error: BaseException) -> bool:
    """Whether the error is no failure of an item: Ctrl-C, or the end of the whole chunk."""
    return isinstance(error, (KeyboardInterrupt, GeneratorExit))


def _is_cancelled() -> bool:
    """Whether the chunk was cancelled. Otherwise an item has raised the CancelledError itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _in_time(fn: Callable[..., Any], item: Any, done: _Items) -> Any:
    chunk = current_scope.set(done.item())
    limit = None
    try:
        async with done.pace.limit(done.timeout) as limit:
            return await fn(item)
    except TimeoutError as error:
        # A step may also raise a TimeoutError of its own.
        if limit is not None and limit.expired():
            raise done.late() from error
        raise
    finally:
        current_scope.reset(chunk)


def blocking_chunk(
    target: Step[..., Any], collects: bool, fn: Callable[..., Any], pace: Pace = _PACE
) -> Callable[..., Any]:
    """As `async_chunk`, for a function that blocks."""

    def chunk(items: Any) -> Any:
        done = _Items(target, collects, pace, items)
        info = done.info
        hands = _Hands(fn, done)
        try:
            for one in items:
                item = one
                done.begin()
                # If the chunk was cancelled, nobody wants the results any more.
                while info is None or not info.cancelled:
                    try:
                        done.outcome[0].append(_here(fn, item, done) if done.timeout is None else hands.call(item))
                        break
                    except BaseException as error:
                        if _is_of_all(error):
                            raise
                        pause = done.after(error)
                        if pause is None:
                            break
                        pace.block(pause)
                        item = done.again(item)
        finally:
            hands.close()
        return done.outcome

    return chunk


def _here(fn: Callable[..., Any], item: Any, done: _Items) -> Any:
    chunk = current_scope.set(done.item())
    try:
        return fn(item)
    finally:
        current_scope.reset(chunk)


class _Hands:
    """A thread for items that have a time limit. If an item exceeds it, the thread is left behind and another one
    begins."""

    def __init__(self, fn: Callable[..., Any], done: _Items) -> None:
        self._fn = fn
        self._done = done
        self._calls: queue.SimpleQueue[Callable[[], None] | None] | None = None

    def call(self, item: Any) -> Any:
        assert self._done.timeout is not None
        # Each call has a queue of its own for its outcome: nobody gets the outcome of a late one.
        told: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        context = contextvars.copy_context()
        seen = self._done.item()
        context.run(current_scope.set, seen)
        if self._calls is None:
            self._calls = queue.SimpleQueue()
            # A daemon, like the threads of all steps: an item that never ends must not keep its worker from stopping.
            threading.Thread(target=_work, args=(self._calls,), name="holdfast-map", daemon=True).start()
        self._calls.put(lambda: told.put(context.run(caught, self._fn, item)))
        try:
            value, error = told.get(timeout=self._done.timeout / SECOND)
        except queue.Empty:
            if seen is not None:
                seen.cancelled = True
            self.close()
            raise self._done.late() from None
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Let the thread end, now or after its current call."""
        if self._calls is not None:
            self._calls.put(None)
            self._calls = None


def _work(calls: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()


def caught(fn: Callable[..., Any], item: Any) -> tuple[Any, BaseException | None]:
    """What the function returned, or the error that it raised."""
    try:
        return fn(item), None
    except BaseException as error:
        return None, error
