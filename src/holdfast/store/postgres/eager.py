"""Coroutines that begin at once: what they send first is on its way before the caller goes on.

A task begins only in the loop's next iteration. A caller that hands over a batch and then computes for some
milliseconds would keep the server waiting for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


def begin(work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
    """Run a coroutine up to where it first waits, and the rest as a task.

    The first part runs in no task, so it must not do what needs the current task, as timeouts do.
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
        # Until the task takes over, nobody waits for this future.
        first._asyncio_future_blocking = False
    return loop.create_task(_Begun(work, first))


class Straight(asyncio.Future[T]):
    """The result of a coroutine that begins at once and never becomes a task. When what it waits for is there, it goes
    on in that very callback, and so does whoever waits for its result.

    As a task, each of the two would take an iteration of the loop. The coroutine must never need a current task.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        super().__init__()
        self._work = work
        self._told: tuple[Callable[[Any], object], Context] | None = None
        self._go_on()

    def add_done_callback(self, fn: Callable[[Any], object], *, context: Context | None = None) -> None:
        if self._told is not None or self.done():
            return super().add_done_callback(fn, context=context)
        # Compared with None: an empty context is false.
        self._told = fn, copy_context() if context is None else context

    def remove_done_callback(self, fn: Callable[[Any], object]) -> int:
        if self._told is not None and self._told[0] == fn:
            self._told = None
            return 1
        return super().remove_done_callback(fn)

    def cancel(self, msg: Any | None = None) -> bool:
        """Wait no more. The coroutine goes on to its end all the same."""
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
    """A coroutine that has run up to where it first waits. It gives that future to the task which runs the rest."""

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
            # The task looks at this mark of a future that was just yielded.
            first._asyncio_future_blocking = True
        return first

    def throw(self, *error: Any) -> Any:
        self._is_handed_out = True
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        raise AssertionError("this is for a task alone")
