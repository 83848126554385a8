"""The parent of several worker processes. It starts, watches and stops them; it claims nothing and opens no database.

A child is a fresh interpreter, never a fork, so it inherits no connection, lock or thread. Each has a socket to the
parent. The end of that socket tells it to stop, so no child outlives a parent that was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdfast.errors import HoldfastError, StoreAway
from holdfast.worker import Interrupts

from .child import News, Refused
from .exits import AWAY, USAGE, WrongSettings
from .plan import ServingPlan
from .restarts import LIMIT, QUICK, Restarts
from .serving import Ready

_log = logging.getLogger("holdfast.fleet")
_CHILD = "holdfast.cli.child"
_HOME = Path(__file__).resolve().parents[2]
_LAST_WORDS = 1.0
_LONGEST_NEWS = 64 * 1024 * 1024
"""In bytes. An error may have a long text, and its traceback comes with it."""


class Child:
    """One worker process, from its start to its end."""

    def __init__(self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._started_at = asyncio.get_running_loop().time()
        self.pid = process.pid
        self.ready: Ready | None = None
        self.refused: Refused | None = None

    @classmethod
    async def start(cls, plan: ServingPlan, *, module: str = _CHILD) -> Child:
        ours, theirs = socket.socketpair()
        try:
            # In its own group, so that Ctrl-C reaches the parent alone, which stops each child. Unbuffered, so that
            # what a step prints appears at once, also in a file or a pipe.
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *_path_flags(plan),
                "-u",
                "-m",
                module,
                stdin=theirs.fileno(),
                process_group=0,
                cwd=plan.directory,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours, limit=_LONGEST_NEWS)
        writer.write(msgspec.json.encode(plan) + b"\n")
        return cls(process, reader, writer)

    def stop(self) -> None:
        """Ask it to stop in good order. Repeats change nothing."""
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.write_eof()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def ended(self, heard: Callable[[], None]) -> tuple[int, float]:
        """Wait for its end. Returns its exit code and how long it lived. `heard` is called for all news from it."""
        listening = asyncio.ensure_future(self._listen(heard))
        try:
            code = await self._process.wait()
            # Its last news may still be on the way. Don't wait long: a process that a step left behind may keep the
            # other end open.
            await asyncio.wait([listening], timeout=_LAST_WORDS)
        finally:
            listening.cancel()
            self._writer.close()
        return code, asyncio.get_running_loop().time() - self._started_at

    async def _listen(self, heard: Callable[[], None]) -> None:
        with contextlib.suppress(OSError):
            while line := await self._reader.readline():
                news = msgspec.json.decode(line, type=News)
                if isinstance(news, Ready):
                    self.ready = news
                else:
                    self.refused = news
                heard()


class Fleet:
    """A number of worker processes. Each is replaced when it dies, until a signal tells all of them to stop."""

    def __init__(self, plan: ServingPlan, size: int, *, ready: Callable[[Ready], None]) -> None:
        self._plan = plan
        self._size = size
        self._ready = ready
        self._children: dict[int, Child] = {}
        self._stopping = asyncio.Event()
        self._was_ready = False
        self._failures = 0
        self._refusal: HoldfastError | None = None

    async def run(self) -> int:
        """Serve until SIGTERM or SIGINT. Returns the exit code: 0 if every process stopped in good order.

        A second signal kills them. Raises HoldfastError if the workers can't begin, or die again and again.
        """
        loop = asyncio.get_running_loop()
        signalled = Interrupts(self._on_signal, self._kill, _log)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, signalled)
        try:
            await asyncio.gather(*(self._keep(number) for number in range(1, self._size + 1)))
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
        if self._refusal is not None:
            raise self._refusal
        return 1 if self._failures else 0

    def stop(self) -> None:
        """Stop all processes in good order."""
        self._stopping.set()
        for child in self._children.values():
            child.stop()

    def _on_signal(self) -> None:
        if self._stopping.is_set():
            # The fleet gave up, and its processes do not end.
            self._kill()
            return
        _log.info("stopping: no more claims, steps in flight may end, everything else is handed back")
        self.stop()

    def _kill(self) -> None:
        _log.warning("a second signal: the worker processes are killed")
        for child in self._children.values():
            child.kill()

    async def _keep(self, number: int) -> None:
        """Keep one place filled until the fleet stops."""
        restarts = Restarts()
        while not self._stopping.is_set():
            try:
                child = self._children[number] = await Child.start(self._plan)
            except OSError as error:
                self._give_up(HoldfastError(f"worker process {number} can't be started: {error}"))
                return
            if self._stopping.is_set():
                child.stop()
            code, lived = await child.ended(self._heard)
            del self._children[number]
            if self._stopping.is_set():
                if code and child.refused is None:
                    self._failures += 1
                    _log.error("worker process %d (%d) %s while it was stopping", number, child.pid, _how_ended(code))
                return
            if child.refused is not None and not self._was_ready:
                self._give_up(_refusal(child.refused))
                return
            is_to_blame = code != 0 and not (child.refused is not None and child.refused.is_away)
            pause = restarts.died(lived, is_to_blame=is_to_blame)
            why = _how_ended(code) if child.refused is None else f"could not begin: {child.refused.text}"
            if restarts.is_hopeless:
                self._give_up(
                    HoldfastError(
                        f"worker process {number} died {LIMIT} times in a row within {QUICK:.0f} s; the last one "
                        f"{why}. See the lines above, mend the cause and start again"
                    )
                )
                return
            _log.error("worker process %d (%d) %s; another one is started in %.1f s", number, child.pid, why, pause)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)

    def _give_up(self, refusal: HoldfastError) -> None:
        if self._refusal is None:
            self._refusal = refusal
        self.stop()

    def _heard(self) -> None:
        ready = [child.ready for child in self._children.values() if child.ready is not None]
        if not self._was_ready and len(ready) == self._size and ready[0] is not None:
            self._was_ready = True
            self._ready(ready[0])


def _path_flags(plan: ServingPlan) -> tuple[str, ...]:
    """`-m` alone would search the working directory before the standard library: a queue.py in it would end the child
    before it began. Discovery adds the directory, when everything that the child needs is loaded."""
    is_home = Path(plan.directory).resolve() == _HOME
    # Holdfast itself may be found by the working directory alone: in a checkout of its own.
    return () if is_home else ("-P",)


def _refusal(refused: Refused) -> HoldfastError:
    # The error class follows from the exit code: scripts see the same code with one process and with many.
    error = {AWAY: StoreAway, USAGE: WrongSettings}.get(refused.code, HoldfastError)(refused.text)
    error.__cause__ = _InChild(f"in a worker process\n\n{refused.trace}")
    return error


class _InChild(Exception):
    """Carries a traceback from another process, for --traceback."""


def _how_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
