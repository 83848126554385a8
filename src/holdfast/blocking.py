"""The durable functions for `def` bodies: each blocks this run, holds no thread, and returns its value.

The same names in `holdfast` do the same at run time in a `def` body, but are typed for `await`; these are typed for
blocking. In an async body they block only the calling task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from datetime import datetime
from inspect import isawaitable
from typing import Any, Generic, Literal, TypeVar, TypeVarTuple, overload

from holdfast import define
from holdfast.define import NoClass, OfOne, Pending, body_for, checked_wait, inline_step
from holdfast.errors import DefinitionError, WaitTimeout
from holdfast.model import NOT_GIVEN, Duration, Retry, instant_of, microseconds

T = TypeVar("T")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
R = TypeVar("R")
D = TypeVar("D")
Ts = TypeVarTuple("Ts")


def sleep(duration: Duration) -> None:
    """Wait durably. The timer runs through restarts and downtime."""
    body = body_for("blocking.sleep()")
    body.block(body.ask_timer(microseconds(duration, what="sleep")))


def sleep_until(moment: datetime) -> None:
    """Wait durably until an aware datetime; one in the past is no wait at all."""
    body = body_for("blocking.sleep_until()")
    body.block(body.ask_timer(max(instant_of(moment, what="sleep_until") - body.now(), 0)))


@overload
def call(
    name: str,
    fn: Callable[[*Ts], Coroutine[Any, Any, R]],
    *args: *Ts,
    retry: Retry | None = None,
    timeout: Duration | None = None,
) -> R: ...
@overload
def call(
    name: str,
    fn: Callable[[*Ts], R],
    *args: *Ts,
    retry: Retry | None = None,
    timeout: Duration | None = None,
) -> R: ...
def call(  # type: ignore[misc]  # mypy can't match *args: Any with *Ts before keywords
    name: str,
    fn: Callable[..., Any],
    *args: Any,
    retry: Retry | None = None,
    timeout: Duration | None = None,
) -> Any:
    """An inline step from any callable, `def` or `async def`; blocks until it has ended. See `holdfast.call`."""
    body = body_for("blocking.call()")
    return body.block(body.ask_step(inline_step(name, fn, retry, timeout), args, {}))


@overload
def gather(*pendings: Pending[T]) -> list[T]: ...
@overload
def gather(first: Pending[T], second: Pending[T2], /) -> list[T | T2]: ...
@overload
def gather(first: Pending[T], second: Pending[T2], third: Pending[T3], /) -> list[T | T2 | T3]: ...
@overload
def gather(
    first: Pending[Any], second: Pending[Any], third: Pending[Any], fourth: Pending[Any], /, *others: Pending[Any]
) -> list[Any]: ...
@overload
def gather(*pendings: Pending[T], return_exceptions: Literal[True]) -> list[T | BaseException]: ...
@overload
def gather(*pendings: Pending[Any], return_exceptions: bool) -> list[Any]: ...
def gather(*pendings: Pending[Any], return_exceptions: bool = False) -> list[Any]:
    """Every result, in the order given. The first failure is raised; the others go on.

    With `return_exceptions` all are waited for, and each failure stands in the place of its result.
    """
    body = body_for("blocking.gather()")
    for one in pendings:
        # In an async body it may also be a step's coroutine.
        if not isawaitable(one):
            raise _no_pending("gather", one)
    return body.block(asyncio.gather(*pendings, return_exceptions=return_exceptions))


def wait(
    pendings: Iterable[Pending[T]], *, timeout: Duration | None = None, return_when: str = asyncio.ALL_COMPLETED
) -> tuple[set[Pending[T]], set[Pending[T]]]:
    """Block until all have ended, the first has, or the time is over; returns those that have ended, and the others.

    Nothing is cancelled.
    """
    body = body_for("blocking.wait()")
    seconds = None if timeout is None else microseconds(timeout, what="wait(timeout=)") / 1_000_000
    left = _listed("wait", pendings)
    for pending in left:
        # This counts as looking at it, in case a timeout comes before the task that waits has begun.
        pending.done()
    return body.run_inside(asyncio.wait(left, timeout=seconds, return_when=return_when))


def as_completed(pendings: Iterable[Pending[T]], *, timeout: Duration | None = None) -> Iterator[Pending[T]]:
    """Each one as it ends; raises WaitTimeout when the time is over and some have not ended."""
    body = body_for("blocking.as_completed()")
    race = _Race(_listed("as_completed", pendings))
    end = None if timeout is None else body.now() + microseconds(timeout, what="as_completed(timeout=)")
    try:
        while race.left:
            seconds = None if end is None else max(end - body.now(), 0) / 1_000_000
            done = body.run_inside(race.next(seconds))
            if not done:
                raise WaitTimeout(f"{race.left} of the steps did not end within {timeout}; wait longer or cancel them")
            for pending in done:
                race.left -= 1
                yield pending
    finally:
        race.leave()


def _listed(what: str, pendings: Iterable[Pending[T]]) -> list[Pending[T]]:
    # A single Pending can be iterated, too, since it can be awaited.
    if asyncio.isfuture(pendings):
        raise DefinitionError(
            f"blocking.{what}(): expected several Pendings, such as [step.start(...)], not one; it has .result()"
        )
    listed = list(pendings)
    for one in listed:
        if not asyncio.isfuture(one):
            raise _no_pending(what, one)
    return listed


def _no_pending(what: str, given: object) -> DefinitionError:
    return DefinitionError(
        f"blocking.{what}(): a {type(given).__name__} is no Pending; expected what step.start(...) returns. A step "
        "that is called in a `def` body has ended by then, and this may be its value"
    )


class _Race(Generic[T]):
    """Pendings that each call back when they end: waiting for all of them anew after each end would be quadratic."""

    def __init__(self, pendings: list[Pending[T]]) -> None:
        self._pendings = pendings
        self.left = len(self._pendings)
        self._places: dict[Pending[T], list[int]] = {}
        for place, pending in enumerate(self._pendings):
            self._places.setdefault(pending, []).append(place)
        self._ended: list[int] = []
        self._waiter: asyncio.Future[None] | None = None
        for pending in self._places:
            pending.add_done_callback(self._end)

    async def next(self, seconds: float | None) -> list[Pending[T]]:
        """Those that have ended since the last call, in the order given; none if the time is over first."""
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = None if seconds is None else loop.call_later(seconds, self._wake)
        if self._ended:
            loop.call_soon(self._wake)
        try:
            await self._waiter
        finally:
            if timer is not None:
                timer.cancel()
        ended, self._ended = sorted(self._ended), []
        return [self._pendings[place] for place in ended]

    def leave(self) -> None:
        """Remove the callbacks."""
        for pending in self._places:
            pending.remove_done_callback(self._end)

    def _end(self, pending: Pending[T]) -> None:
        self._ended += self._places[pending]
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


@overload
def wait_for_signal(name: str, *, match: Any = None, timeout: Duration | None = None, type: type[T]) -> T: ...
@overload
def wait_for_signal(
    name: str, *, match: Any = None, timeout: Duration | None = None, default: D, type: type[T]
) -> T | D: ...
@overload
def wait_for_signal(
    name: str, *, match: Any = None, timeout: Duration | None = None, default: Any = NOT_GIVEN, type: NoClass
) -> Any: ...
@overload
def wait_for_signal(
    name: str, *, match: Any = None, timeout: Duration | None = None, default: Any = NOT_GIVEN
) -> Any: ...
def wait_for_signal(
    name: str, *, match: Any = None, timeout: Duration | None = None, default: Any = NOT_GIVEN, type: Any = Any
) -> Any:
    """The payload of the next signal of that name; see `holdfast.wait_for_signal`."""
    return _wait("signal", name, match, timeout, default, type)


@overload
def wait_for_event(name: str, *, match: Any = None, timeout: Duration | None = None, type: type[T]) -> T: ...
@overload
def wait_for_event(
    name: str, *, match: Any = None, timeout: Duration | None = None, default: D, type: type[T]
) -> T | D: ...
@overload
def wait_for_event(
    name: str, *, match: Any = None, timeout: Duration | None = None, default: Any = NOT_GIVEN, type: NoClass
) -> Any: ...
@overload
def wait_for_event(
    name: str, *, match: Any = None, timeout: Duration | None = None, default: Any = NOT_GIVEN
) -> Any: ...
def wait_for_event(
    name: str, *, match: Any = None, timeout: Duration | None = None, default: Any = NOT_GIVEN, type: Any = Any
) -> Any:
    """The payload of a published event; see `holdfast.wait_for_event`."""
    return _wait("event", name, match, timeout, default, type)


def _wait(kind: str, name: str, match: Any, timeout: Duration | None, default: Any, type: Any) -> Any:
    body = body_for(f"blocking.wait_for_{kind}()")
    return body.block(body.ask_wait(kind, name, match, type, checked_wait(kind, name, timeout), default))


class Hook(Generic[T]):
    """A hook whose `wait()` blocks this run; see `holdfast.Hook`."""

    __slots__ = ("_hook",)

    def __init__(self, hook: define.Hook[T]) -> None:
        self._hook = hook

    @property
    def name(self) -> str:
        return self._hook.name

    @property
    def token(self) -> str:
        """What the outside resumes this run with, once."""
        return self._hook.token

    def wait(self) -> T:
        """The payload. Raises WaitTimeout when the hook has expired."""
        return self._hook.block()

    def __repr__(self) -> str:
        return repr(self._hook)


@overload
def hook(*, name: str = "hook", type: type[T], expires: Duration | None = "30d") -> Hook[T]: ...
@overload
def hook(*, name: str = "hook", type: NoClass, expires: Duration | None = "30d") -> Hook[Any]: ...
@overload
def hook(*, name: str = "hook", expires: Duration | None = "30d") -> Hook[Any]: ...
def hook(*, name: str = "hook", type: Any = Any, expires: Duration | None = "30d") -> Hook[Any]:
    """A one-time token that resumes this run; see `holdfast.hook`."""
    return Hook(define.hook(name=name, type=type, expires=expires))


@overload
def map(
    target: OfOne[T, R],
    items: Iterable[T],
    *,
    concurrency: int = 10,
    on_error: Literal["stop"] = "stop",
    chunk: int | None = None,
) -> list[R]: ...
@overload
def map(
    target: OfOne[T, R],
    items: Iterable[T],
    *,
    concurrency: int = 10,
    on_error: Literal["collect"],
    chunk: int | None = None,
) -> list[R | define.Failure]: ...
def map(
    target: Any,
    items: Iterable[Any],
    *,
    concurrency: int = 10,
    on_error: Literal["stop", "collect"] = "stop",
    chunk: int | None = None,
) -> list[Any]:
    """A step or a child run for each item, the results in order; see `holdfast.map`."""
    body = body_for("blocking.map()")
    return body.run_inside(define.mapped(body, target, items, concurrency, on_error, chunk)())


def rollback() -> None:
    """Run the compensations registered so far, last first; see `holdfast.rollback`."""
    body = body_for("blocking.rollback()")
    body.run_inside(body.rollback())
