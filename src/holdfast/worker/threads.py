"""Threads for `def` steps, and for the functions that an `async def` step gives to `asyncio.to_thread`.

They are daemons, unlike those of an executor, which Python waits for at its exit: a step that never ends must not keep
a worker from stopping when its grace period is over. The result of such a step goes nowhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias

_Ended: TypeAlias = "asyncio.Future[tuple[Any, BaseException | None]]"


class Threads:
    """As many threads as are needed at once, at `most` that many. Each begins when it is first needed."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._taken = 0

    async def call(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function in a thread, in this context, and return or raise what it returns or raises."""
        ended: _Ended = asyncio.get_running_loop().create_future()
        error: BaseException | None = None
        self.submit(partial(_call, ended, contextvars.copy_context(), fn, args, kwargs))
        try:
            result, error = await ended
            if error is not None:
                raise error
            return result
        finally:
            # The error's traceback holds this frame. If the frame led back to the error, only the collector could free
            # them.
            del ended, error

    def submit(self, call: Callable[[], None]) -> None:
        """Make the next free thread call it."""
        with self._lock:
            is_short = self._taken >= self._count and (self._most is None or self._count < self._most)
            if is_short:
                # Begun first: if no thread can be begun the caller is told, and nothing was called.
                threading.Thread(target=self._work, name=f"holdfast-step-{self._count + 1}", daemon=True).start()
                self._count += 1
            self._taken += 1
        self._calls.put(call)

    def close(self) -> None:
        """Let idle threads end now, and busy ones after their current call."""
        with self._lock:
            count, self._count = self._count, 0
        for _ in range(count):
            self._calls.put(None)

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            if call is None:
                return
            call()
            # While it waits for the next call, it must not keep this one's arguments alive.
            del call
            with self._lock:
                self._taken -= 1


class LoopThreads(ThreadPoolExecutor):
    """A loop's default executor for a process that ends when its worker has stopped. As large as asyncio's own."""

    def __init__(self) -> None:
        super().__init__()
        self._daemons = Threads(most=min(32, (os.cpu_count() or 1) + 4))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._daemons.submit(partial(_fulfil, future, fn, args, kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Returns without waiting, although asyncio asks to wait when a loop ends."""
        self._daemons.close()


def _fulfil(future: Future[Any], fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    result, error = _caught(fn, args, kwargs)
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
    # As in `_call`.
    del future, error


def _call(
    ended: _Ended, context: contextvars.Context, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    outcome = context.run(_caught, fn, args, kwargs)
    # The loop may be closed by then: a step may outlast its worker.
    with contextlib.suppress(RuntimeError):
        ended.get_loop().call_soon_threadsafe(_tell, ended, outcome)
    # An error's traceback holds this frame, too.
    del ended, outcome


def _caught(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, BaseException | None]:
    # A future can't carry StopIteration, so errors travel as values.
    try:
        return fn(*args, **kwargs), None
    except BaseException as error:
        return None, error


def _tell(ended: _Ended, outcome: tuple[Any, BaseException | None]) -> None:
    if not ended.done():
        ended.set_result(outcome)
