"""A worker process of a fleet: `python -m holdfast.cli.child`, started by its parent and by nobody else.

Its standard input is a socket to the parent. The plan comes through it, the news goes back; when it ends, so does the
child, in good order: either the parent asked for that, or the parent is gone, whichever way it died. So stopping is
one thing that may be said twice, and a signal to the whole group, as service managers send it, does no harm.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator

import msgspec

from holdfast.errors import HoldfastError
from holdfast.worker import Worker

from .exits import AWAY, code_of
from .plan import ServingPlan, set_up_logging
from .serving import Beside, Ready, find, serve

_log = logging.getLogger("holdfast.worker")
_GRACE = 20_000_000
_PATIENCE = 30.0


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """A worker could not begin."""

    text: str
    trace: str
    code: int
    """The exit code that goes with it."""

    @property
    def is_away(self) -> bool:
        """It was the database's fault: another try may work."""
        return self.code == AWAY


News = Ready | Refused


class Link:
    """The child's end of the socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._reader = connection.makefile("rb")
        self._lock = threading.Lock()
        self._worker: tuple[asyncio.AbstractEventLoop, Worker] | None = None
        self.is_over = False

    def plan(self) -> ServingPlan | None:
        """The plan; None if the parent was gone before it could be sent."""
        line = self._reader.readline()
        return msgspec.json.decode(line, type=ServingPlan) if line.endswith(b"\n") else None

    def say(self, news: News) -> None:
        """Tell the parent, if it is still there."""
        with contextlib.suppress(OSError):
            self._connection.sendall(msgspec.json.encode(news) + b"\n")

    def watch(self, patience: float) -> None:
        """Stop the worker when the parent says so or is gone, and end the process if it has not ended long after."""
        threading.Thread(target=self._watch, args=(patience,), name="holdfast-parent", daemon=True).start()

    @contextlib.contextmanager
    def stopping(self, worker: Worker) -> Iterator[None]:
        """Inside, whatever ends the link, and any signal, stops the worker in good order."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.stop)
        with self._lock:
            self._worker = (loop, worker)
            if self.is_over:
                worker.stop()
        try:
            yield
        finally:
            with self._lock:
                self._worker = None

    def _watch(self, patience: float) -> None:
        with contextlib.suppress(OSError):
            while self._reader.read(1):
                pass
        with self._lock:
            self.is_over = True
            if self._worker is not None:
                loop, worker = self._worker
                loop.call_soon_threadsafe(worker.stop)
        _log.debug("stopping: the parent has said so, or is gone")
        # The process ends and this thread with it, unless a body or a resource never lets go of the loop.
        threading.Event().wait(patience)
        _log.error("this worker process was told to stop %.0f s ago and has not; it is ended now", patience)
        os._exit(1)


def main(beside: Beside | None = None) -> int:
    """Be a worker of the parent's fleet, and return the exit code."""
    link = Link(_taken_over_stdin())
    plan = link.plan()
    if plan is None:
        return 1
    set_up_logging(plan.log_level)
    link.watch((plan.grace if plan.grace is not None else _GRACE) / 1_000_000 + _PATIENCE)
    try:
        found = find(plan)
        if not link.is_over:
            asyncio.run(serve(plan, found, ready=link.say, stopped_by=link.stopping, beside=beside))
    except HoldfastError as error:
        refused = Refused(text=str(error), trace=traceback.format_exc(), code=code_of(error))
        link.say(refused)
        return refused.code
    return 0


def _taken_over_stdin() -> socket.socket:
    """The socket to the parent. Nobody else gets it: what steps start finds an empty standard input."""
    connection = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return connection


if __name__ == "__main__":
    sys.exit(main())
