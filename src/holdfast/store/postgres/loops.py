"""The thread, with an event loop of its own, on which a store's connections live, except for the home links of workers.

So a store answers callers on any event loop, and renewals are sent whatever users' code does on theirs. commits.py says
what takes the shorter way over home links.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import sys
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from holdfast.errors import MisplacedCall, StoreAway
from holdfast.extras import find_extra

T = TypeVar("T")
_PARTING = 2.0


class LoopThread:
    """A thread that is started when it is first needed and stopped with the store."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self) -> None:
        """Start the thread, unless it runs."""
        if self._loop is None:
            _refuse_greenlets()
            # Whichever loop the application uses, uvloop's saves a quarter of the processor time of a commit.
            faster = find_extra("uvloop")
            self._loop = asyncio.SelectorEventLoop() if faster is None else faster.new_event_loop()
            self._thread = threading.Thread(target=self._turn, args=(self._loop,), name=self._name, daemon=True)
            self._thread.start()

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            # Tasks that are left, such as one that is just connecting, would keep the loop from closing.
            if left := asyncio.all_tasks(loop):
                for task in left:
                    task.cancel()
                loop.run_until_complete(asyncio.wait(left, timeout=_PARTING))
        finally:
            loop.close()

    def stop(self) -> None:
        """Stop the thread. What is still under way is cancelled; connections must have been closed before."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self._thread = None

    def call(self, deed: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Future[T]:
        """Have a deed done on that thread, beginning at once. The answer comes to the loop that runs here."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._begin, deed, loop, future)
        return future

    def wait(self, deed: Callable[[], Coroutine[Any, Any, T]], timeout: float) -> T:
        """The same for a caller that blocks in a thread of its own. Raises TimeoutError."""
        assert self._loop is not None
        found = asyncio.run_coroutine_threadsafe(deed(), self._loop)
        try:
            return found.result(timeout)
        except concurrent.futures.TimeoutError:
            found.cancel()
            raise TimeoutError("no answer in time") from None

    async def finish(self, patience: float) -> bool:
        """Wait until all calls have been answered; False if some were broken off because they took longer than that.
        Only to be called on that thread."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        while others := [task for task in self._tasks if task is not asyncio.current_task()]:
            if loop.time() >= until:
                for task in others:
                    task.cancel()
                await asyncio.wait(others, timeout=_PARTING)
                return False
            await asyncio.wait(others, timeout=until - loop.time())
        return True

    def post(self, callback: Callable[[], object]) -> None:
        """Call it on that thread, soon. Once the thread was stopped, nothing is called."""
        loop = self._loop
        if loop is not None:
            # Another thread may have stopped the loop since we looked.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(callback)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin a task. Only to be called on that thread."""
        return asyncio.get_running_loop().create_task(work)

    def _begin(
        self,
        deed: Callable[[], Coroutine[Any, Any, T]],
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[T],
    ) -> None:
        task = asyncio.get_running_loop().create_task(deed())
        self._tasks.add(task)
        task.add_done_callback(partial(self._answer, loop, future))

    def _answer(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[T], task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        try:
            loop.call_soon_threadsafe(_settle, future, task)
        except RuntimeError:
            # The loop was closed meanwhile: nobody is there to be told.
            if not task.cancelled():
                task.exception()


def _refuse_greenlets() -> None:
    """Raise where gevent or eventlet has made greenlets of threads: two event loops can't turn in one thread."""
    if "gevent" in sys.modules or "eventlet" in sys.modules:
        found: list[int] = []
        probe = threading.Thread(target=lambda: found.append(threading.get_native_id()))
        probe.start()
        probe.join()
        if found == [threading.get_native_id()]:
            raise MisplacedCall(
                "the threads of this process are greenlets, because gevent or eventlet has patched them, and a store "
                "on Postgres needs a thread of its own; have the server use threads (gunicorn: --worker-class gthread; "
                "celery: --pool threads), or use Holdfast in a process that is not patched"
            )


def _settle(future: asyncio.Future[T], task: asyncio.Task[T]) -> None:
    if future.cancelled():
        return
    if task.cancelled():
        future.set_exception(
            StoreAway("the store was closed before the database had answered; nobody can tell how it ended")
        )
        return
    error = task.exception()
    if error is None:
        future.set_result(task.result())
    else:
        future.set_exception(error)
