"""One run in memory: a body, its loop, and the journal's entries going in and out.

Sans-IO: no clock, no store, no thread.

Invariants:

- Inputs are delivered one entry at a time, live and on replay, and after each the body runs until it is quiet. So how
  inputs were grouped into turns has no effect on the body.
- Once the execution is dead (put away, or stopped by a fault), every durable call raises Suspended, whatever the body
  catches.
"""

from __future__ import annotations

import contextvars
import weakref
from asyncio import events
from collections.abc import AsyncGenerator, Sequence
from typing import Any, NoReturn

import msgspec
from greenlet import greenlet

from holdfast.codec import Codec
from holdfast.define import RunInfo, Workflow, current_scope, filled
from holdfast.errors import CodecError, NotDecodable, Suspended
from holdfast.model import (
    ASKS,
    Cancel,
    ChildEnded,
    Entry,
    Input,
    Instant,
    Message,
    Patched,
    Reopened,
    RunRetrying,
    Started,
    StepCompleted,
    StepFailed,
    StepRetrying,
    TimerFired,
)

from . import hosts
from .commands import Advance, Command
from .deliveries import Deliveries
from .departure import put_away
from .divergence import ending
from .life import Lived, lived
from .loop import Handle
from .outcome import last_failure, settle, would_retry
from .runners import Runners, is_entered, run_beside
from .shapes import shapes_of
from .tasks import BodyTask, as_coroutine

_NOTHING: Any = ()


class Execution(Deliveries):
    """The body of one run. `replay` rebuilds it, `advance` takes inputs in, `put_away` ends it without a trace.

    The first two may raise what blocks a run (JournalDiverged, NeverAwaited, NotDecodable, IOInBody). The run is intact
    then; this execution can't be used any more.
    """

    __slots__ = (
        "_generators", "_input", "_lives", "_lost_generators", "_retried_at", "context", "failure",
    )  # fmt: skip  # a name a line would be a page

    def __init__(
        self, workflow: Workflow[Any, Any], run: RunInfo, input: bytes, seed: bytes, codec: Codec, runners: Runners
    ) -> None:
        super().__init__(workflow, run, seed, codec, runners)
        self._input = input
        self.context = contextvars.Context()
        self.began_at: Instant = 0
        self.failure = b""
        self.cancel: Cancel | None = None
        self.main: BodyTask[Any] | None = None
        self.ended_main = None
        self.stamp = 0
        self._generators: weakref.WeakSet[AsyncGenerator[Any, Any]] | None = None
        self._lives: list[Lived] | tuple[()] = ()
        self._retried_at: Instant | None = None
        self._lost_generators: tuple[AsyncGenerator[Any, Any], ...] = ()

    def replay(
        self, history: Sequence[Entry], lives: Sequence[tuple[int, RunRetrying]] = (), carried: Sequence[Entry] = ()
    ) -> None:
        """Rebuild the body from its history. Afterwards `commands` holds the steps that are open.

        `lives` says where in the history the whole run was tried again, and `carried` what will be delivered after the
        history (see model.History).
        """
        self._lives = lived(lives) if lives else ()
        if hooks := next((one.hooks for _, one in reversed(lives) if one.hooks), ()):
            self.life.expect_hooks(hooks)
        self._tell()
        self._feed, self._cursor, self.is_replaying = history, 0, True
        self._begun = []
        if history:
            self._run()
        if self._cursor < len(history):
            self._diverge(self._what_it_does(), history[self._cursor])
        is_beyond = not self.is_replaying
        self._next_life(carried)
        self._feed, self.is_replaying = (), False
        if self.main is not None and self.main.done() and not is_beyond:
            self._diverge(f"the end of the run{ending(self.main)}", next(iter(carried), None))
        self._entries = self._begun = _NOTHING
        self._withdrawn = ()
        if self._life is not None and not is_beyond:
            self._life.forget_out()
            self._life.mark_registered()

    def advance(self, inputs: Sequence[Input | Message], stamp: Instant = 0) -> Advance:
        """Take inputs in, in order. Inputs that nobody waits for any more are left out.

        Messages are inputs, too. The entries made from them are stamped with `stamp`.
        """
        entries: list[Entry] = []
        self.stamp = stamp
        if self._life is not None:
            if self._life.is_reopened:
                self._life.is_reopened = False
                entries.append(Reopened(max(stamp, self.time), True))
            entries += self._life.marks
            self._life.marks = []
        begun: list[Command] = []
        self._entries, self._begun = entries, begun
        self._feed, self._cursor = inputs, 0
        self._run()
        self._feed = ()
        done = Advance(entries, begun, self._withdrawn, consumed=self._cursor)
        # Between two advances nothing may be asked: an ask would fail on this tuple.
        self._entries = self._begun = _NOTHING
        self._withdrawn = ()
        main = self.main
        if self.verdict is not None:
            settle(self, self._codec, self._seed, done, may_retry=False)
        elif main is not None and main.done():
            if not self.is_cancelled:
                self._check_end(main)
            # A cancel that came too late for the body to see still ends the run: it is not tried again.
            missed = self.leave(inputs[done.consumed :])
            settle(self, self._codec, self._seed, done, may_retry=missed is None, missed=missed)
        elif done.withdrawn:
            # A step that was asked for and withdrawn in one advance is not begun at all.
            done.begin = [command for command in done.begin if self.commands.get(command.key) is command]
        if self._life is not None:
            self.give_out(done)
        return done

    def next_timer(self) -> Instant | None:
        """When the next timer is due."""
        timer = self.loop.next_timer()
        return None if timer is None else timer.due_at

    def due_timers(self, now: Instant) -> list[tuple[Instant, int]]:
        """The timers that are due: when each was due, and its number, in the order in which they fire."""
        return [(timer.due_at, timer.number) for timer in self.loop.due_timers(now)]

    def put_away(self) -> None:
        """End the body. Nothing that it does from here on gets out."""
        put_away(self)

    def _run(self) -> None:
        host = self.runners.host
        leave = hosts.enter(self.loop, host) if hosts.ONE_A_THREAD else None
        if leave is None:
            # The same as `hosts.enter`, inlined, since every advance comes here.
            events._set_running_loop(self.loop)
        try:
            self.runners.run(self)
        finally:
            if leave is None:
                events._set_running_loop(host)
            else:
                leave()
        if self.fault is not None:
            raise self.fault

    def pump(self) -> greenlet | None:
        """Run what is ready, then deliver the next entry, until none is left or a greenlet can go on: that one."""
        ready = self.runners.ready
        while True:
            while ready:
                item = ready.popleft()
                if item.__class__ is greenlet:
                    return item
                if not item._cancelled:
                    try:
                        item._context.run(item._callback, *item._args)
                    except BaseException as error:
                        self._failed(error, item)
                if self.is_dead:
                    return None
            # A circle: a body's error has this frame in its traceback, and this callback may hold the error.
            item = None
            if self.main is not None and self.main.done():
                if self._life is not None and self.begins_compensation(self._would_retry()):
                    continue
                return None
            if self._life is not None and self._life.mailbox:
                if self.hand_out_mail():
                    continue
                if self.is_dead:
                    return None
            if self._cursor >= len(self._feed):
                return None
            entry = self._feed[self._cursor]
            if self.is_replaying and entry.__class__ in ASKS and entry.__class__ is not Patched:
                return None
            if self._lives:
                self._next_life()
            kind = entry.__class__
            if kind is Message or (kind is Cancel and not self.is_replaying):
                if self.loop.timers and self.fire_before(entry.at if kind is Cancel else entry.sent_at):
                    continue
                if kind is Cancel and self.is_signalling_itself:
                    return None
            self._cursor += 1
            if kind is Message:
                self.accept(entry)
            else:
                self._deliver(entry)
            if self.is_dead:
                return None

    def _next_life(self, carried: Sequence[Entry] = ()) -> None:
        """Let the body see, from here on, the attempt number that it saw when it lived through the next entries."""
        while self._lives and self._lives[-1][0] <= self._cursor:
            _, retrying, _ = self._lives.pop()
            self.run.attempt = retrying.attempt + 1
            self.begin_timeouts_anew(retrying.retry_at)
            if self._life is not None and self._life.children:
                coming = (*self._feed[self._cursor :], *carried)
                self._life.restart_children(retrying, [one for one in coming if isinstance(one, ChildEnded)])
            self.began_at = self._retried_at = retrying.first_at
            self.failure = retrying.error
            self._tell()

    def _tell(self) -> None:
        """Let the body see the run that lived through the next entries: what it asked for may depend on that."""
        self.run.former = self._lives[-1][2] if self._lives else None

    def _would_retry(self) -> bool:
        """Whether the run's policy tries again, and no cancel came together with the input that made the body fail.

        Such a cancel is not in the journal. But then the journal goes on after the failure, with the compensations.
        """
        if not would_retry(self, self._seed):
            return False
        rest = self._feed[self._cursor :]
        return not rest if self.is_replaying else not any(isinstance(entry, Cancel) for entry in rest)

    def _failed(self, error: BaseException, item: Handle) -> None:
        """A callback raised."""
        if is_entered(error):
            beside = (item._context, item._callback, *item._args)
            return self.runners.ready.appendleft(Handle(run_beside, beside, contextvars.Context()))
        if isinstance(error, KeyboardInterrupt):
            # Ctrl-C stops the worker, and is no failure of the run.
            raise error
        # A task that raised SystemExit has it as its failure, and in a body it means nothing more.
        if not isinstance(error, (Suspended, SystemExit)):
            self.unhandled({"message": "a callback in the body failed", "exception": error})

    def _deliver(self, entry: Any) -> None:
        kind = entry.__class__
        if kind is StepCompleted:
            command = self._addressee(entry)
            if command is not None:
                del self.commands[command.key]
                self._take_in(entry)
                try:
                    value = command.shapes.result.decode(entry.result)
                except NotDecodable as error:
                    self.fail_with(error)
                else:
                    self.undo_later(command, entry.result)
                    command.reply.set_result(value)
        elif kind is TimerFired:
            if entry.timer in self.loop.timers:
                self._take_in(entry)
                self.loop.fire(entry.timer)
            elif self.is_replaying:
                self.fail_with(self.divergence(f"{self._what_it_does()}; no such timer is set", entry))
        elif kind is StepFailed:
            command = self._addressee(entry)
            if command is not None:
                del self.commands[command.key]
                self._take_in(entry)
                try:
                    failure = self._codec.decode_exception(entry.error, home=self.workflow.fn.__module__)
                    if entry.done is not None:
                        self.undo_later(command, entry.done)
                except NotDecodable as error:
                    self.fail_with(error)
                else:
                    command.reply.set_exception(failure)
        elif kind is StepRetrying:
            command = self._addressee(entry)
            if command is not None:
                self._take_in(entry)
                # Not counted, since the body never sees it: a step that is retried for long would fill the journal.
                self.run.journal_length -= 1
                command.attempt = entry.attempt + 1
                command.retry_at = entry.retry_at
                command.first_at = entry.first_at
                command.details = entry.details
                command.failed_at, command.failure = entry.at, entry.error
        elif kind is Cancel:
            if self.cancel is None:
                if not self.is_replaying:
                    # It came with the time at which it was sent, by which it was ordered. It is stamped here.
                    entry = msgspec.structs.replace(entry, at=max(entry.at, self.stamp, self.time))
                self._take_in(entry)
                self.cancel = entry
                self.failure = last_failure(self)
                if self._life is not None and self._life.is_compensating:
                    self._life.is_exempt = True
                # Before the start, this cancels the body before it begins: only what earlier runs left is undone.
                self.cancel_main()
        elif kind is Started:
            self._take_in(entry)
            self.began_at = self.time if self._retried_at is None else self._retried_at
            self._begin()
            if self.cancel is not None:
                self.cancel_main()
        else:
            self._deliver_other(entry)

    def _addressee(self, entry: Any) -> Command | None:
        command = self.commands.get(entry.key)
        if command is None and self.is_replaying:
            self.fail_with(self.divergence(f"{self._what_it_does()}; nobody waits for that step", entry))
        return command

    def _begin(self) -> None:
        try:
            args, kwargs = shapes_of(self.workflow, self._codec).arguments.unpack(self._codec.open(self._input))
        except CodecError as error:
            return self.fail_with(error)
        fn = self.workflow.fn
        if self.workflow.changeable is not None:
            args, kwargs = filled(self.workflow.changeable, args, kwargs)
        # The body gets a context of its own: no contextvar of the worker's is seen in it, and none of its own outside.
        self.context.run(current_scope.set, self)
        body = fn(*args, **kwargs) if self.workflow.is_async else as_coroutine(fn, args, kwargs)
        self.main = self.loop.create_task(body, name="body", context=self.context)

    def _diverge(self, what: str, held: Entry | None) -> NoReturn:
        self.fail_with(self.divergence(what, held, at=self._cursor))
        assert self.fault is not None
        raise self.fault

    @property
    def has_generators(self) -> bool:
        return bool(self._generators or self._lost_generators)

    def open_generators(self) -> list[AsyncGenerator[Any, Any]]:
        found, self._generators = self._generators, None
        lost, self._lost_generators = self._lost_generators, ()
        return [*(found or ()), *lost]

    def generator_begins(self, generator: AsyncGenerator[Any, Any]) -> None:
        if self._generators is None:
            self._generators = weakref.WeakSet()
        self._generators.add(generator)

    def generator_lost(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Nobody refers to this generator any more. The body closes it, not the collector."""
        if self.is_dead:
            self._lost_generators += (generator,)
        else:
            self.loop.create_task(generator.aclose())

    def forget(self) -> None:
        """Let go of everything, so that reference counting frees it at once.

        Coroutines that never began are closed in silence.
        """
        for work, *_ in self._tickets.values():
            work.close()
        self._tickets.clear()
        self._open_pendings.clear()
        self.commands.clear()
        self._life = None
        for timer in [*self.loop.timers.values()]:
            timer.cancel()
        self.loop.tasks.clear()
        self.loop.disown()
        self._begun, self._withdrawn, self._feed = _NOTHING, (), ()
        self.main = self.ended_main = None
        self.context = contextvars.Context()

    def __repr__(self) -> str:
        return f"<execution of {self.run!r}>"
