"""Coroutines that begin at once: what they send first is on its way when this returns, not a turn of the loop later.

A task begins when the loop comes round to it. Whoever hands over a batch and then computes for some milliseconds would
keep the server waiting for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


def begin(work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
    """Run it up to where it first waits, and the rest as a task.

    Up to there it is in nobody's task: only for what does not ask for one, as timeouts do.
    """
    loop = asyncio.get_running_loop()
    try:
        first = work.send(None)
    except StopIteration as end:
        done: asyncio.Future[T] = loop.create_future()
        done.set_result(end.value)
        return done
    except Exception as error:
        failed: asyncio.Future[T] = loop.create_future()
        failed.set_exception(error)
        return failed
    if first is not None:
        # Until the task takes it over nobody waits there, and others may.
        first._asyncio_future_blocking = False
    return loop.create_task(_Begun(work, first))


class Straight(asyncio.Future[T]):
    """What comes of a coroutine that begins at once and never becomes a task: it goes on, and whoever waits for it is
    told, in the very callback in which what it waits for is there.

    Each of those would take a turn of the loop. Only for what asks for no task, to its end.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        super().__init__()
        self._work = work
        self._told: tuple[Callable[[Any], object], Context] | None = None
        self._go_on()

    def add_done_callback(self, fn: Callable[[Any], object], *, context: Context | None = None) -> None:
        if self._told is not None or self.done():
            return super().add_done_callback(fn, context=context)
        # An empty one is false, and given all the same.
        self._told = fn, copy_context() if context is None else context

    def remove_done_callback(self, fn: Callable[[Any], object]) -> int:
        if self._told is not None and self._told[0] == fn:
            self._told = None
            return 1
        return super().remove_done_callback(fn)

    def cancel(self, msg: Any | None = None) -> bool:
        """Nobody waits any more; what is on its way is finished all the same."""
        is_cancelled = super().cancel(msg)
        told, self._told = self._told, None
        if told is not None:
            self.get_loop().call_soon(told[0], self, context=told[1])
        return is_cancelled

    def _go_on(self, _: object = None) -> None:
        try:
            waited = self._work.send(None)
        except StopIteration as end:
            if not self.done():
                self.set_result(end.value)
        except asyncio.CancelledError:
            self.cancel()
        except Exception as error:
            if not self.done():
                self.set_exception(error)
        else:
            if waited is None:
                self.get_loop().call_soon(self._go_on)
            else:
                waited._asyncio_future_blocking = False
                waited.add_done_callback(self._go_on)
            return
        told, self._told = self._told, None
        if told is not None:
            told[1].run(told[0], self)


class _Begun(Coroutine[Any, Any, T]):
    """A coroutine that has run up to where it first waits, and hands that out to the task that it becomes."""

    __slots__ = ("_first", "_is_handed_out", "_work")

    def __init__(self, work: Coroutine[Any, Any, T], first: Any) -> None:
        self._work = work
        self._first = first
        self._is_handed_out = False

    def send(self, value: Any) -> Any:
        if self._is_handed_out:
            return self._work.send(value)
        self._is_handed_out = True
        first, self._first = self._first, None
        if first is not None:
            # As it was when it was handed out before: the task looks at this.
            first._asyncio_future_blocking = True
        return first

    def throw(self, *error: Any) -> Any:
        self._is_handed_out = True
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise AssertionError("this is for a task alone")
