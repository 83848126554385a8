"""Replies: futures of a body that entries of the journal resolve.

They hash by creation number, so that sets of them iterate alike on every replay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Keeper(Protocol):
    """What a reply needs of the body that made it."""

    is_blocking: bool

    def next_number(self) -> int: ...

    def withdraw(self, reply: Reply[Any]) -> None: ...

    def seen(self, pending: Pending[Any]) -> None: ...

    def block(self, future: asyncio.Future[T]) -> T: ...


class Reply(asyncio.Future[T]):
    """The future behind one durable call. Cancelling it withdraws the command."""

    __slots__ = ("_keeper", "_number", "key", "timer", "wait")

    def __init__(self, keeper: Keeper, loop: asyncio.AbstractEventLoop, key: str) -> None:
        super().__init__(loop=loop)
        self._keeper = keeper
        self._number = keeper.next_number()
        self.key = key
        self.timer: Any = None
        """The timer that resolves it, if there is one."""
        self.wait: int | None = None
        """The number of its wait, if it belongs to one. Cleared for a hook whose payload was read."""

    def __hash__(self) -> int:
        return self._number

    def cancel(self, msg: Any | None = None) -> bool:
        """Withdraw the command: its step is cancelled and its result will not be recorded."""
        if not super().cancel(msg):
            return False
        self._keeper.withdraw(self)
        return True


class Pending(Reply[T]):
    """A step under way: what `step.start(...)` returns.

    In an async body it is a future: await it, gather it, race it. In a `def` body `.result()` blocks this run until the
    step has ended. A Pending that the body never looks at is an error at the end of the body. A Pending that has lost a
    race is cancelled there.
    """

    __slots__ = ("_is_seen",)

    def __init__(self, keeper: Keeper, loop: asyncio.AbstractEventLoop, key: str) -> None:
        super().__init__(keeper, loop, key)
        self._is_seen = False

    def _see(self) -> None:
        if not self._is_seen:
            self._is_seen = True
            self._keeper.seen(self)

    def __await__(self) -> Generator[Any, None, T]:
        self._see()
        return super().__await__()

    __iter__ = __await__

    def result(self) -> T:
        """The step's value, or its exception. In a `def` body it blocks until there is one."""
        self._see()
        if not super().done():
            if self._keeper.is_blocking:
                return self._keeper.block(self)
            raise asyncio.InvalidStateError(
                f"{self.key!r} has not ended; await it: .result() waits in a `def` body only"
            )
        return super().result()

    def exception(self) -> BaseException | None:
        self._see()
        return super().exception()

    def done(self) -> bool:
        self._see()
        return super().done()

    def add_done_callback(self, fn: Callable[[Any], object], /, *, context: Any = None) -> None:
        self._see()
        super().add_done_callback(fn, context=context)

    def cancel(self, msg: Any | None = None) -> bool:
        self._see()
        return super().cancel(msg)
