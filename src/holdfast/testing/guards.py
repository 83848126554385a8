"""Refuses I/O in bodies while tests run: open, sockets, subprocesses, threads and time.sleep.

Python raises audit events for these in any library. The audit hook is set with the first guard and can't be removed;
while no guard is active it does next to nothing. A refusal stops the run inside its body: the run is blocked with
IOInBody, and no `except` of the body sees it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import zoneinfo
from collections.abc import Iterator
from types import FrameType
from typing import Any

from holdfast.define import current_scope, is_body
from holdfast.engine import own_line
from holdfast.errors import IOInBody

_THREADS = frozenset({"_thread.start_new_thread", "_thread.start_joinable_thread"})
_REFUSED = _THREADS | {
    *("open", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen", "time.sleep"),
}
# Modules that may read files in a body: for an import, a traceback's lines, a log, a time zone, a debugger.
_EXCUSED = frozenset(
    {
        *("_frozen_importlib", "_frozen_importlib_external", "importlib", "pkgutil", "zipimport"),
        *("linecache", "traceback", "warnings", "logging", "zoneinfo"),
        *("bdb", "pdb", "pydevd", "_pydevd_bundle", "coverage"),
    }
)


class _Guard:
    """The guarded threads. There is one for the process, as an audit hook is for the whole process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_set = False
        self._real_sleep = time.sleep
        self._real_start = threading.Thread.start
        self.threads: dict[int, int] = {}

    @contextlib.contextmanager
    def up(self) -> Iterator[None]:
        me = threading.get_ident()
        with self._lock:
            if not self._is_set:
                self._is_set = True
                sys.addaudithook(self._hook)
            if not self.threads:
                self._stand_in()
            self.threads[me] = self.threads.get(me, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self.threads[me] -= 1
                if not self.threads[me]:
                    del self.threads[me]
                if not self.threads:
                    self._stand_back()

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _REFUSED and not event.startswith("socket."):
            return
        if not self.threads or threading.get_ident() not in self.threads:
            return
        body = current_scope.get()
        if is_body(body) and not _is_excused(event, args, frame := sys._getframe(1)):
            line = own_line(frame, body.main) or "an unknown line"
            body.stop_with(
                IOInBody(
                    f"{_describe(event, args)} at {line}, inside a workflow body, where it would happen again on every "
                    "replay; move this into a step"
                )
            )

    def _stand_in(self) -> None:
        # Threads have an audit event since Python 3.12, time.sleep since 3.13: before that they are patched. A name
        # that was imported before (`from time import sleep`) is not caught.
        if sys.version_info < (3, 13):
            self._real_sleep, time.sleep = time.sleep, self._sleep
        if sys.version_info < (3, 12):
            self._real_start = threading.Thread.start
            threading.Thread.start = _start  # type: ignore[method-assign, assignment]

    def _stand_back(self) -> None:
        if time.sleep == self._sleep:
            time.sleep = self._real_sleep
        if threading.Thread.start is _start:
            threading.Thread.start = self._real_start  # type: ignore[method-assign]

    def _sleep(self, seconds: Any) -> None:
        self._hook("time.sleep", (seconds,))
        self._real_sleep(seconds)

    def start(self, thread: threading.Thread) -> None:
        self._hook("_thread.start_new_thread", ())
        self._real_start(thread)


_guard = _Guard()


def _start(thread: threading.Thread) -> None:
    _guard.start(thread)


def guarded() -> contextlib.AbstractContextManager[None]:
    """A context manager in which every body that advances on this thread is refused I/O."""
    return _guard.up()


def _is_excused(event: str, args: tuple[Any, ...], frame: FrameType | None) -> bool:
    if event == "open" and str(args[0]).startswith(zoneinfo.TZPATH):
        # ZoneInfo is written in C and has no frame to find below.
        return True
    # Only the body's own frames are searched: they end where its greenlet began.
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _EXCUSED:
            return True
        frame = frame.f_back
    return False


def _describe(event: str, args: tuple[Any, ...]) -> str:
    if event == "open":
        return f"open({args[0]!r}) was called"
    if event == "time.sleep":
        return f"time.sleep({args[0]!r}) was called (holdfast.sleep is the durable way)"
    if event == "subprocess.Popen":
        return f"the program {args[0]!r} was started"
    return "a thread was started" if event in _THREADS else f"{event} was called"
