"""Futures and tasks of a body: they hash alike on every replay, and a task that blocks can be cancelled."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from greenlet import greenlet

T = TypeVar("T")


class BodyFuture(asyncio.Future[T]):
    """A future of a body: hashes by number, so that sets of them iterate alike on every replay."""

    __slots__ = ("_number",)

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._number = number

    def __hash__(self) -> int:
        return self._number


class StrangeFuture(BodyFuture[T]):
    """A future that neither asyncio nor the house has made: a thread of some library may be what resolves it."""

    __slots__ = ()


class BodyTask(asyncio.Task[T]):
    """A task of a body. It hashes alike on every replay, as a body's futures do, and unlike the tasks of other runs.

    While the task is blocked in a `def` call, its greenlet is set aside and `blocked_on` is the future that it waits
    for.
    """

    __slots__ = ("_hash", "_raised_cancels", "blocked_on", "greenlet", "must_raise", "own_context")

    def __init__(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        loop: asyncio.AbstractEventLoop,
        hash: int,
        name: str,
        context: contextvars.Context,
    ) -> None:
        # The C implementation hashes the task while it is being made, so this comes first.
        self._hash = hash
        self.own_context = context
        self.blocked_on: asyncio.Future[Any] | None = None
        self.greenlet: greenlet | None = None
        self.must_raise: asyncio.CancelledError | None = None
        self._raised_cancels = 0
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self._hash

    # To asyncio a blocked task is in the middle of a step, and a cancel would only be noted. Here the cancel is raised
    # out of the blocking call, and the count that timeout() and TaskGroup read is kept.
    def cancel(self, msg: Any | None = None) -> bool:
        if self.blocked_on is None:
            return super().cancel(msg)
        self._raised_cancels += 1
        if not self.blocked_on.cancel(msg):
            # The awaited future is done, but the task has not gone on yet: the cancel comes first, as in asyncio.
            self.must_raise = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        return True

    def cancelling(self) -> int:
        return super().cancelling() + self._raised_cancels

    def uncancel(self) -> int:
        if self._raised_cancels:
            self._raised_cancels -= 1
            return self.cancelling()
        return super().uncancel()


async def as_coroutine(fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
    """A `def` body as the coroutine that its task needs."""
    # A call without unpacking stays in one frame of the interpreter. With it, every waiting run would hold a copy of
    # that frame.
    if not kwargs and len(args) < 3:
        if len(args) == 1:
            return fn(args[0])
        return fn(args[0], args[1]) if args else fn()
    return fn(*args, **kwargs)
