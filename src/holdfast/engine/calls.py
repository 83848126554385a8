"""The durable calls of a body: asks, timers and blocking. Once the run is dead, every call is refused here.

This is the lowest layer of an execution. It faces the body, and so do the layers above it up to requests.py (together
they are the `Body` of holdfast.define); execution.py faces the worker. What a body asks for depends on nothing but the
entries that were delivered to it. On replay each ask is compared with the journal at the place where it is made: the
first difference stops the execution with a report, and nothing of that execution gets out.
"""

from __future__ import annotations

import asyncio
import random
import sys
from asyncio import current_task
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Iterable, Sequence
from hashlib import blake2b
from types import CodeType, FrameType
from typing import Any, NoReturn, TypeAlias, TypeVar
from uuid import UUID

from greenlet import getcurrent, greenlet

from holdfast.codec import Codec
from holdfast.define import HouseLogger, Pending, Reply, RunInfo, Step, Workflow
from holdfast.errors import IOInBody, JournalDiverged, JournalLimitReached, NotInBody, Suspended
from holdfast.model import Entry, Instant, Patched, Reseeded, StepAsked, Undoing

from .commands import Command
from .divergence import calling_line, diverged, line_at
from .loop import BodyLoop
from .runners import BLOCKED, STUBBORN, Runners
from .shapes import shapes_of
from .tasks import BodyTask

T = TypeVar("T")
_log = HouseLogger("holdfast.engine")
_CLEANUP_RESERVE = 1_000
_TALKATIVE = 100
_Task: TypeAlias = "asyncio.Task[Any] | None"
_NO_CALLS: dict[int, Any] = {}
"""Shared by all runs without open calls, and never written to: a waiting run keeps no table of its own."""
Earlier: TypeAlias = Callable[[bytes], Iterable[bytes]]
"""Gives the other bytes that earlier versions of its types may have packed the same call into."""


class Calls:
    """The side of an execution that its body sees."""

    __slots__ = (
        "_awaited_at", "_awaited_in", "_begun", "_codec", "_counts", "_cursor", "_entries", "_feed", "_is_limit_told",
        "_limit", "_numbers", "_open_pendings", "_refused", "_reseed", "_rng", "_seed", "_tickets", "_uuids",
        "_withdrawn", "commands", "fault", "hub", "is_blocking", "is_dead", "is_replaying", "loop", "main", "run",
        "runners", "time", "verdict", "workflow",
    )  # fmt: skip  # a name a line would be a page

    main: BodyTask[Any] | None
    """The task of the body itself, or the task that compensates for it; None before the start."""

    def __init__(self, workflow: Workflow[Any, Any], run: RunInfo, seed: bytes, codec: Codec, runners: Runners) -> None:
        self.workflow = workflow
        self.run = run
        self.time: Instant = 0
        self.is_blocking = not workflow.is_async
        self.is_replaying = False
        self.is_dead = False
        self.fault: Exception | None = None
        self.verdict: Exception | None = None
        """A failure that ends the run although its body goes on."""
        self.commands: dict[str, Command] = {}
        self.hub: greenlet | None = None
        self.runners = runners
        self.loop = BodyLoop(self, runners.ready)  # type: ignore[abstract]  # its refusals are set in a loop
        self._codec = codec
        self._seed = seed
        self._entries: list[Entry] = []
        self._feed: Sequence[Any] = ()
        self._cursor = 0
        self._begun: list[Command] = []
        self._withdrawn: list[Command] | tuple[()] = ()
        self._counts: dict[str, int] = {}
        self._numbers = 0
        self._tickets: dict[int, tuple[Coroutine[Any, Any, Any], _Task, CodeType, int]] = _NO_CALLS
        self._open_pendings: dict[int, tuple[Pending[Any], _Task, CodeType, int]] = _NO_CALLS
        self._awaited_in: CodeType | None = None
        self._awaited_at = 0
        self._limit = workflow.journal_limit
        """The body is refused further asks after so many inputs. Cleaning up raises this number."""
        self._is_limit_told = False
        self._refused = 0
        self._rng: random.Random | None = None
        self._reseed: Reseeded | None = None
        self._uuids = 0

    def ask_step(self, step: Step[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Reply[Any]:
        return self._ask(step, args, kwargs, Reply)

    def ask_undoing(
        self, step: Step[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any], plain: bytes | None = None
    ) -> Reply[Any]:
        """Ask for a compensation. `plain` holds its arguments if they are encoded already."""
        return self._ask(step, args, kwargs, Reply, Undoing, plain)

    def ask_pending(self, step: Step[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Pending[Any]:
        pending = self._ask(step, args, kwargs, Pending)
        assert isinstance(pending, Pending)
        self.expect_look(pending)
        return pending

    def expect_look(self, pending: Pending[Any]) -> None:
        """Remember that the user was handed a Pending and has to look at it."""
        frame = sys._getframe(3)
        if self._open_pendings is _NO_CALLS:
            self._open_pendings = {}
        self._open_pendings[hash(pending)] = (pending, current_task(self.loop), frame.f_code, frame.f_lasti)

    def _ask(
        self,
        step: Step[Any, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        cls: type[Reply[Any]],
        asked: type[StepAsked] = StepAsked,
        plain: bytes | None = None,
    ) -> Reply[Any]:
        if self.is_dead:
            self.refuse()
        if self.run.journal_length >= self._limit and asked is StepAsked:
            # A full journal refuses no compensation: there are only as many as were registered.
            self.check_limit()
        name = step.name
        shapes = shapes_of(step, self._codec)
        if plain is None:
            plain = shapes.arguments.pack(args, kwargs)
        key = self._new_key(name)
        digest = blake2b(plain, digest_size=8).digest()
        if self.is_replaying:
            self._match(key, digest, shapes.arguments.earlier, plain)
        else:
            self._entries.append(asked(key, digest, self._codec.seal(plain) if step.record_args else None))
        reply = cls(self, self.loop, key)
        command = self.commands[key] = Command(key, step, shapes, plain, reply)
        self._begun.append(command)
        return reply

    def _new_key(self, name: str) -> str:
        """The name; for its second use "name:1", and so on, past keys that other names have taken."""
        used = self._counts.get(name, 0)
        key = f"{name}:{used}" if used else name
        if not used and ":" in name and self._is_of_another(name):
            used, key = 1, f"{name}:1"
        while used and key in self._counts:
            used += 1
            key = f"{name}:{used}"
        self._counts[name] = used + 1
        if self._reseed is not None and key not in (self._reseed.until or ()):
            self.reseed(self._reseed.seed)
        return key

    def _is_of_another(self, name: str) -> bool:
        """Whether this name reads like the key of a later use of another name, and that key was given out."""
        base, _, number = name.rpartition(":")
        return number.isdecimal() and self._counts.get(base, 0) > int(number)

    def _match(self, key: str, digest: bytes, earlier: Earlier, plain: bytes) -> None:
        held = self._next_held()
        if isinstance(held, StepAsked) and held.key == key and is_digest_of(held.digest, digest, earlier, plain):
            self._cursor += 1
            return
        line = calling_line(3) or self._awaited_line
        what = f"step {key!r}, arguments {digest.hex()}, at {line}"
        if isinstance(held, StepAsked) and held.key == key:
            what = f"step {key!r} with other arguments ({digest.hex()}), at {line}"
        self.stop_with(self.divergence(what, held, at=self._cursor))

    def _next_held(self) -> Entry | None:
        """The next entry of the journal. Markers of `patched` that the code no longer asks about are skipped."""
        while self._cursor < len(self._feed):
            held: Entry = self._feed[self._cursor]
            if held.__class__ is not Patched:
                return held
            self._cursor += 1
        return None

    def ask_timer(self, delay: int) -> asyncio.Future[None]:
        if self.is_dead:
            self.refuse()
        reply: Reply[None] = Reply(self, self.loop, "")
        reply.timer = self.loop.call_after(delay, _resolve, reply, context=self.runners.context)
        return reply

    def block(self, future: asyncio.Future[T]) -> T:
        if self.is_dead:
            self.refuse()
        if future.done():
            return future.result()
        task, me = current_task(self.loop), getcurrent()
        if me.parent is None:  # the main greenlet of another thread, and no runner
            self.stop_with(IOInBody("a durable call was made in another thread than the body's; move this into a step"))
        if not isinstance(task, BodyTask):
            self.stop_with(
                IOInBody("a blocking durable call was made in a callback of the body; make it in the body or in a task")
            )
        future.add_done_callback(_Unblock(self.runners.ready, me), context=self.runners.context)
        task.blocked_on, task.greenlet = future, me
        _leave_task(self.loop, task)
        assert self.hub is not None
        try:
            self.hub.switch(BLOCKED)
        finally:
            task.blocked_on = task.greenlet = None
            _enter_task(self.loop, task)
        if self.is_dead:
            self.refuse()
        late, task.must_raise = task.must_raise, None
        if late is not None and not future.cancelled():
            raise late
        try:
            return future.result()
        finally:
            # A circle: the future holds the error, and its traceback this frame. Only the collector could free it.
            del future

    def run_inside(self, work: Coroutine[Any, Any, T]) -> T:
        return self.block(self.loop.create_task(work))

    def withdraw(self, reply: Reply[Any]) -> None:
        if reply.timer is not None:
            reply.timer.cancel()
        command = self.commands.get(reply.key)
        if command is not None and command.reply is reply:
            del self.commands[reply.key]
            if self._withdrawn:
                self._withdrawn.append(command)
            else:
                self._withdrawn = [command]

    def new_ticket(self) -> int:
        if self.is_dead:
            self.refuse()
        return self.next_number()

    def track(self, work: Coroutine[Any, Any, T], ticket: int, frame: FrameType) -> Coroutine[Any, Any, T]:
        if self._tickets is _NO_CALLS:
            self._tickets = {}
        self._tickets[ticket] = (work, current_task(self.loop), frame.f_code, frame.f_lasti)
        return work

    def redeem(self, ticket: int, *, is_let_go: bool = False) -> None:
        # In a task of its own a call has no frame of the user's above it: its line is the one where it was made.
        made = self._tickets.pop(ticket)
        _, _, self._awaited_in, self._awaited_at = made
        if self.main is not None and self.main.done() and not is_let_go:
            # The task begins after the end of the body, so this call is never made: it counts as not awaited.
            self._tickets[ticket] = made

    @property
    def _awaited_line(self) -> str:
        return "an unknown line" if self._awaited_in is None else line_at(self._awaited_in, self._awaited_at)

    def seen(self, pending: Pending[Any]) -> None:
        self._open_pendings.pop(hash(pending), None)

    def rest(self) -> None:
        """Free what only a busy run needs: tables that grew and are empty now."""
        self.commands = dict(self.commands)
        self._tickets = dict(self._tickets) if self._tickets else _NO_CALLS
        self._open_pendings = dict(self._open_pendings) if self._open_pendings else _NO_CALLS
        self._awaited_in = None

    @property
    def is_silent(self) -> bool:  # A finalizer that logs while the collector runs belongs to no body.
        return self.is_replaying or (self.is_dead and not self.runners.is_collecting)

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def hash_of(self, number: int) -> int:
        """By the run's seed: asyncio keeps the tasks of all runs in one set, where their first ones must not collide.

        The low bits are the number alone, so that a small set iterates over its tasks in the order of their creation.
        """
        return (int.from_bytes(self._seed[:6], "big") << 8) + number

    def now(self) -> Instant:
        return self.time

    def rng(self) -> random.Random:
        if self.is_dead:
            self.refuse()
        self._rng = self._rng or random.Random(self._seed)
        return self._rng

    def reseed(self, seed: bytes) -> None:
        """Draw from another seed: a fork must not repeat the tokens and numbers of the run that it stems from."""
        self._seed, self._reseed = seed, None
        if self._rng is not None:
            self._rng.seed(seed)  # In place, since the body may hold this object.

    def uuid4(self) -> UUID:
        if self.is_dead:
            self.refuse()
        self._uuids += 1
        drawn = blake2b(self._uuids.to_bytes(8, "big"), key=self._seed, person=b"holdfast uuid4", digest_size=16)
        return UUID(bytes=drawn.digest(), version=4)

    def check_limit(self) -> None:
        """Raise once when the journal is full; what follows is cleanup, and has a reserve of its own."""
        if self.run.journal_length < self._limit:
            return
        error = JournalLimitReached(
            f"{self.run!r} has taken in {self.run.journal_length} inputs and its journal_limit is "
            f"{self.workflow.journal_limit}; end it with continue_as_new(...), which begins a fresh run with an empty "
            "journal, or raise @workflow(journal_limit=)"
        )
        if self._is_limit_told:
            # The body was told before and has used up the reserve: the run ends here, whatever the body catches.
            self.verdict = error
            self.is_dead = True
            raise Suspended
        self._is_limit_told = True
        self.reserve_cleanup()
        raise error

    def reserve_cleanup(self) -> None:
        """The body cleans up from here on: make room for that, however full the journal is."""
        self._limit = max(self._limit, self.run.journal_length) + _CLEANUP_RESERVE

    def stop_with(self, error: Exception) -> NoReturn:
        """Stop the execution from inside its body. The worker sees the error, the body never does."""
        self._stop(error)
        raise Suspended

    def _stop(self, error: Exception) -> None:
        """Another thread may do so while the body waits: then nobody notices unless the worker is told."""
        self.fail_with(error)
        # In this order: a worker that advances the body looks for a fault after the hub is gone.
        if self.hub is None and self.runners.stopped is not None:
            self.runners.stopped(self)

    def fail_with(self, error: Exception) -> None:
        if self.fault is None:
            self.fault = error
        self.is_dead = True

    def refuse(self) -> NoReturn:
        """Refuse a call on a dead run: raise the suspension again. Code that keeps catching it is left behind."""
        self._refused += 1
        while self._refused > _TALKATIVE and self.hub is not None and getcurrent() is not self.hub:
            if getcurrent() not in self.runners.kept:
                self.runners.kept.append(getcurrent())
                _log.error(
                    "%r: its body goes on calling although it was put away; it is left at %s", self.run, calling_line(2)
                )
            self.hub.switch(STUBBORN)
        raise Suspended

    def refuse_outsider(self) -> NoReturn:
        """Refuse a call by which somebody outside resolves what the body waits for: no replay could repeat that."""
        what = (
            f"an asyncio object of the body of {self.run!r} was used from outside, such as by a thread that a library "
            "began, or by a step that sets one of its Events; move this into a step: let it do the thread's work and "
            "return what the body needs to know; others can send the run a signal"
        )
        self._stop(IOInBody(what))
        raise NotInBody(what)

    def divergence(self, what: str, held: Entry | None, *, at: int | None = None) -> JournalDiverged:
        return diverged(repr(self.run), self._cursor - 1 if at is None else at, held, what)

    def unhandled(self, context: dict[str, Any]) -> None:
        """Log that a callback failed or nobody retrieved an exception. On replay that was logged before."""
        if not self.is_dead and not self.is_replaying:
            _log.error("%r: %s", self.run, context.get("message"), exc_info=context.get("exception"))


def is_digest_of(held: bytes, digest: bytes, earlier: Earlier, plain: bytes) -> bool:
    """Whether the journal holds this very call, also if the types in it have got fields with defaults since then."""
    return held == digest or any(blake2b(one, digest_size=8).digest() == held for one in earlier(plain))


class _Unblock:
    """Puts a greenlet that was set aside back in line when its future is done."""

    __slots__ = ("_greenlet", "_ready")

    def __init__(self, ready: Any, me: greenlet) -> None:
        self._ready = ready
        self._greenlet = me

    def __call__(self, _: asyncio.Future[Any]) -> None:
        self._ready.append(self._greenlet)


def _resolve(reply: Reply[None]) -> None:
    # The timer has fired. Reply and timer refer to each other, so only the collector could free them.
    reply.timer = None
    if not reply.done():
        reply.set_result(None)
