"""A worker process of a fleet: `python -m holdfast.cli.child`. Only its parent starts it.

Its standard input is a socket to the parent. It receives the plan and sends news back. When the socket ends, the child
stops in good order: the parent has asked for it, or is gone, however it died. So a stop may be asked for twice, and a
signal to the whole group, as service managers send it, does no harm.
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
    """The exit code for this refusal."""

    @property
    def is_away(self) -> bool:
        """Whether the database was away, so another try may work."""
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
        """The plan; None if the parent died before it was sent."""
        line = self._reader.readline()
        return msgspec.json.decode(line, type=ServingPlan) if line.endswith(b"\n") else None

    def say(self, news: News) -> None:
        """Tell the parent, if it is still there."""
        with contextlib.suppress(OSError):
            self._connection.sendall(msgspec.json.encode(news) + b"\n")

    def watch(self, patience: float) -> None:
        """Stop the worker when the parent asks for it or is gone. If that takes too long, end the process."""
        threading.Thread(target=self._watch, args=(patience,), name="holdfast-parent", daemon=True).start()

    @contextlib.contextmanager
    def stopping(self, worker: Worker) -> Iterator[None]:
        """Within this block, the end of the link, or a signal, stops the worker in good order."""
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
        # This thread ends with the process, unless a body or a resource never lets go of the loop.
        threading.Event().wait(patience)
        _log.error("this worker process was told to stop %.0f s ago and has not; it is ended now", patience)
        os._exit(1)


def main(beside: Beside | None = None) -> int:
    """Be a worker of the parent's fleet. Returns the exit code."""
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
    """The socket to the parent, taken off standard input: processes that steps start find that empty."""
    connection = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return connection


if __name__ == "__main__":
    sys.exit(main())
