"""The portal: an event loop in a thread of its own, through which blocking code calls async code.

The thread starts with the first call and is a daemon. It ends with `close`, or when the client is collected, or with
the program. A forked process does not have the thread, so the portal starts another one there.
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
    """A portal in one process: its loop and thread, once there was a call."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread: threading.Thread | None = None


class Portal:
    """Runs coroutines for threads that block until they are done."""

    def __init__(self) -> None:
        self._processes: dict[int, _Served] = {}
        self._is_closed = False

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the portal's loop, in the caller's context, and block until it ends.

        If it is interrupted (Ctrl-C), it cancels the work and lets the interruption through. Raises ClientClosed if the
        portal was closed before, or is closed meanwhile.
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
        """Await `last` on the loop if there is one, then end the loop and its thread. A second call changes nothing."""
        here = self._here()
        with here.lock:
            loop, thread = here.loop, here.thread
            here.loop = here.thread = None
            self._is_closed = True
            if loop is None or thread is None:
                return
            # Under the lock, so that all work that was submitted before is on the loop before it ends.
            ending = asyncio.run_coroutine_threadsafe(_end(loop, last), loop)
        if wait and threading.current_thread() is not thread:
            thread.join(_PATIENCE)
            if ending.done():
                ending.result()

    def _here(self) -> _Served:
        """The state in this process. After a fork it is a new one: the parent's lock may be held by a thread that does
        not exist here. `setdefault` is atomic, so that threads that come at the same time get the same one."""
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
    """Run async code that never suspends, on this thread and without an event loop."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]  # it is what the coroutine returned
    work.close()
    raise AssertionError("a coroutine that was not to give way did")


def _refused(work: Coroutine[Any, Any, T]) -> None:
    """Refuse a call in a body. The coroutine itself says what to do instead, so it is begun; but not on a loop: to make
    one opens a socket, which a body must not do."""
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
