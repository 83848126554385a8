"""The portal: an event loop in a thread of its own, through which blocking code calls async code.

The thread starts with the first call and is a daemon; `close` ends it, and so does the garbage collector or the end
of the program. A process made by `fork` has no such thread: there the portal starts another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from holdfast.define import current_scope, is_body, refuse_in_body
from holdfast.errors import ClientClosed, MisplacedCall

T = TypeVar("T")
_PATIENCE = 10.0
"""Seconds that closing waits for what is under way."""


class _Served:
    """A portal in one process: its loop, if anybody has called."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread: threading.Thread | None = None


class Portal:
    """Runs coroutines for threads that can't wait in any other way than by blocking."""

    def __init__(self) -> None:
        self._processes: dict[int, _Served] = {}
        self._is_closed = False

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the portal's loop, in the caller's context, and block until it ends.

        Interrupted (Ctrl-C), it cancels the work and lets the interruption through. Raises ClientClosed if it is
        closed, before or meanwhile.
        """
        try:
            if is_body(current_scope.get()):
                _refused(work)
            future = self._submit(work)
        except BaseException:
            work.close()
            raise
        try:
            return future.result()
        except CancelledError:
            raise ClientClosed("the client was closed during this call; what it asked for may have happened") from None
        except BaseException:
            future.cancel()
            raise

    def close(self, last: Callable[[], Awaitable[None]], *, wait: bool = True) -> None:
        """Await `last` on the loop if there is one, then end the loop and its thread. Repeating it changes nothing."""
        here = self._here()
        with here.lock:
            loop, thread = here.loop, here.thread
            here.loop = here.thread = None
            self._is_closed = True
            if loop is None or thread is None:
                return
            # Under the lock, so that whatever was submitted before is on the loop before it ends.
            ending = asyncio.run_coroutine_threadsafe(_end(loop, last), loop)
        if wait and threading.current_thread() is not thread:
            thread.join(_PATIENCE)
            if ending.done():
                ending.result()

    def _here(self) -> _Served:
        """After a fork another one: the lock of the parent's may be held by a thread that does not exist here.

        In one step, so that threads that come first at the same time get the same.
        """
        return self._processes.setdefault(os.getpid(), _Served())

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        here = self._here()
        with here.lock:
            if self._is_closed:
                raise ClientClosed("this client was closed; make another one, or close it later")
            if threading.current_thread() is here.thread:
                raise MisplacedCall(
                    "a blocking client was called on its own event loop, where it would wait for itself; "
                    "use AsyncClient there"
                )
            if here.loop is None:
                here.loop = asyncio.new_event_loop()
                here.thread = threading.Thread(target=_serve, args=(here.loop,), name="holdfast client", daemon=True)
                here.thread.start()
            return asyncio.run_coroutine_threadsafe(work, here.loop)


def inline(work: Coroutine[Any, Any, T]) -> T:
    """Run async code that never gives way right here, on this thread and without an event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # it is what the coroutine returned
    work.close()
    raise AssertionError("a coroutine that was not to give way did")


def _refused(work: Coroutine[Any, Any, T]) -> None:
    """Have the call say by itself what to do in a body, before a loop is made for it: that would be a socket."""
    with contextlib.suppress(StopIteration):
        work.send(None)
    refuse_in_body("a blocking client", "do it in a step")


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        for task in (left := asyncio.all_tasks(loop)):
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _end(loop: asyncio.AbstractEventLoop, last: Callable[[], Awaitable[None]]) -> None:
    try:
        await last()
    finally:
        loop.stop()
