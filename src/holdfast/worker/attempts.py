"""Executing steps: each attempt executes on the loop or in a thread, inside its middleware.

An attempt ends in exactly one entry, or in none if nobody wants its result any more. Results are encoded and checked
here, before the journal sees them: a value that can't be stored fails the step for good, and the step is not executed
again because of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from holdfast.codec import Codec
from holdfast.define import HouseLogger, Step, StepInfo, current_scope
from holdfast.engine import Command
from holdfast.model import StepCompleted, StepRetrying, moment_of
from holdfast.model import StepFailed as StepFailedEntry

from .attempt import Attempt, Item
from .clock import Clock
from .failures import recorded, recorded_part, refused, timed_out, unread, weighed
from .given import no_manager
from .held import Held
from .inside import Inside
from .outbox import Outbox
from .tasks import begun_later
from .threads import Threads
from .told import attempt_retrying, step_failed

_log = HouseLogger("holdfast.worker")
_LINGER = 5_000_000
_PAUSE = 0.05
Outcome = StepCompleted | StepFailedEntry | StepRetrying


class Attempts:
    """The steps that this worker has in flight."""

    __slots__ = (
        "_beat", "_clock", "_codec", "_context", "_done", "_enter", "_flying", "_holds", "_interrupted", "_limits",
        "_loop", "_may_begin", "_middleware", "_queues", "_threads", "dice", "inside", "is_cancelled", "outbox",
        "resources", "stand_in", "tasks",
    )  # fmt: skip  # a name a line would be a page

    def __init__(
        self,
        codec: Codec,
        clock: Clock,
        *,
        threads: int,
        in_flight: int,
        middleware: Sequence[Callable[[StepInfo], Any]],
        may_begin: Callable[[], bool],
        holds: Callable[[], bool],
        done: Callable[[Attempt, Outcome], None],
        beat: Callable[[Held], None],
        interrupted: Callable[[], None],
        outbox: Outbox,
    ) -> None:
        self._codec = codec
        self._clock = clock
        self._middleware = middleware
        self._may_begin = may_begin
        self._holds = holds
        self._done = done
        self._beat = beat
        self._interrupted = interrupted
        self._enter: Callable[[Attempt], object] = current_scope.set
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        # By colour: `def` steps wait for a thread; `async def` steps are bounded so that one run can't flood the loop.
        self._limits = {True: in_flight, False: threads}
        self._flying = {True: 0, False: 0}
        self._queues: dict[bool, deque[Attempt]] = {True: deque(), False: deque()}
        self._threads = Threads()
        self.outbox = outbox
        self.resources: Mapping[object, Any] = {}
        self.stand_in: Callable[[Step[..., Any], tuple[Any, ...], dict[str, Any]], Awaitable[Any] | None] | None = None
        """In a test environment: returns what to await in place of a step's function, or None to execute the
        function."""
        self.dice: Callable[[], float] = random.SystemRandom().random
        """A number from 0 to 1 that spreads the delays of retries; in a test environment it is always 0.5. It is not
        drawn from the program's own random numbers: these may be seeded alike in every process, and are not ours to
        draw from."""
        self.inside: Inside
        self.is_cancelled: Callable[[], bool] = lambda: False
        self.tasks: set[asyncio.Task[None]] = set()
        """Every attempt's task until it ends, also of attempts that nobody waits for any more."""

    def begin(self, held: Held, command: Command) -> Attempt:
        attempt = Attempt(self, held, command)
        if command.details is not None:
            attempt.heartbeat_details = self._codec.value(Any).decode(command.details)
        held.attempts[command.key] = attempt
        is_async = command.step.is_async
        if self._flying[is_async] < self._limits[is_async]:
            self._launch(attempt)
        else:
            self._queues[is_async].append(attempt)
        return attempt

    def beaten(self, attempt: Attempt, details: Any) -> None:
        """A heartbeat, on the step's own thread. Details that can't be stored are an error raised to the step."""
        self._beat(attempt.held)
        if details is not None:
            attempt.details = self._codec.value(Any).encode(details)

    def send(self, attempt: Attempt, name: str, value: Any, *, is_value: bool) -> None:
        """A value or an item, on the step's own thread. An attempt whose run was lost, or that was abandoned, sends
        nothing."""
        data = self._codec.message(value, "set_value" if is_value else "emit", name)
        if not attempt.held.is_lost and not attempt.is_left and not (attempt.is_timed_out and attempt.is_settled):
            attempt.has_sent = True
            kept = attempt.kept
            (self.outbox.add if kept is None else kept.append)(Item(attempt, name, data, is_value))

    def _launch(self, attempt: Attempt) -> None:
        self._flying[attempt.command.step.is_async] += 1
        # This may be called in another step's context, and nothing of that may be seen by this step.
        context = self._context.copy()
        task = attempt.task = begun_later(self._loop, self._run(attempt), name=attempt.key, context=context)
        self.tasks.add(task)

    def _limit(self, attempt: Attempt) -> None:
        """Begin the attempt's time. Waiting in line, for a thread or for a transaction does not count."""
        ends = attempt.held.deadline_of_steps
        if attempt.timeout is not None:
            when = self._clock.now() + attempt.timeout
            attempt.alarm = self._clock.call_at(when, partial(self._time_out, attempt))
            ends = when if ends is None else min(ends, when)
        attempt.deadline = None if ends is None else moment_of(ends)

    def _stop_clock(self, attempt: Attempt) -> None:
        """The function has ended: the attempt's time no longer runs."""
        if attempt.alarm is not None and not attempt.is_timed_out:
            attempt.alarm.cancel()
            attempt.alarm = None

    def _landed(self, attempt: Attempt) -> None:
        """The attempt has left its place: the next one in line begins."""
        task, attempt.task = attempt.task, None
        if task is None:
            return
        # The task's context refers to the attempt. If the attempt kept the task, only the collector could free the two.
        self.tasks.discard(task)
        if attempt.alarm is not None:
            attempt.alarm.cancel()
            attempt.alarm = None
        self._flying[attempt.command.step.is_async] -= 1
        if self._queues[True] or self._queues[False]:
            self.go_on()

    def go_on(self) -> None:
        """Begin attempts in line for which there is room. The lease is checked just before each."""
        for is_async, queue in self._queues.items():
            while queue and self._flying[is_async] < self._limits[is_async] and self._may_begin():
                waiting = queue.popleft()
                if not waiting.is_settled:
                    self._launch(waiting)

    def empty_line(self) -> None:
        """The worker stops: attempts in line never begin. Their runs are handed back with these steps open."""
        for queue in self._queues.values():
            for waiting in queue:
                self._give_up(waiting)
            queue.clear()

    def _give_up(self, attempt: Attempt) -> None:
        """End an attempt without an outcome: the step executes again wherever the run goes on."""
        if not attempt.is_settled:
            self._settle(attempt)
            attempt.held.attempts.pop(attempt.key, None)

    def withdraw(self, attempt: Attempt) -> None:
        """Nobody wants the result any more: cancel an async step, and tell one in a thread.

        It may go on all the same, but after a while it keeps neither its place nor a connection that others need.
        """
        if attempt.is_settled:
            return
        self._settle(attempt)
        attempt.cancelled = True
        if attempt.task is None:
            return
        if attempt.command.step.is_async:
            self._cancel(attempt)
        elif attempt.loan is not None:
            attempt.loan.abort()
        if attempt.alarm is not None:
            if attempt.timeout is not None and attempt.timeout <= _LINGER:
                # Its timeout comes before that.
                return
            attempt.alarm.cancel()
        attempt.alarm = self._clock.call_at(self._clock.now() + _LINGER, partial(self._outstay, attempt))

    def _cancel(self, attempt: Attempt) -> None:
        assert attempt.task is not None
        attempt.task.cancel()
        # A task that is cancelled before it began never executes `_run`, which lands it.
        attempt.task.add_done_callback(lambda _: self._landed(attempt))

    def close(self) -> None:
        """Let go of the threads. A step that still executes in one can't be stopped, but its result goes nowhere."""
        for task in self.tasks:
            task.cancel()
        self.outbox.close()
        self._threads.close()
        self.inside.lender.close()

    async def _run(self, attempt: Attempt) -> None:
        command = attempt.command
        step = command.step
        if not self._holds():  # many were launched at once, and then the process stood still
            self._queues[step.is_async].append(attempt)
            return self._landed(attempt)
        attempt.began_at = self._clock.now()
        attempt.first_at = attempt.began_at if command.first_at is None else command.first_at
        if (attempt.timeout is not None or attempt.run.deadline_instant is not None) and not step.is_transactional:
            self._limit(attempt)
        self._enter(attempt)
        try:
            args, kwargs = command.shapes.arguments.unpack(command.args)
        except BaseException as error:
            # The arguments were encoded by this process, so another attempt could not read them either.
            if not attempt.is_settled:
                self._end_failed(attempt, unread(attempt, error))
            return self._landed(attempt)
        try:
            try:
                if self._middleware or self.stand_in is not None or step.is_transactional:
                    value = await self._inside_middleware(attempt, args, kwargs)
                elif step.is_async:
                    value = await step.fn(*args, **kwargs)
                else:
                    value = await self._in_thread(attempt, args, kwargs)
            finally:
                if attempt.has_sent and not attempt.is_settled:
                    self._stop_clock(attempt)
                    if attempt.kept is None:
                        # Otherwise all of it goes with the transaction, which holds the lock that others' items need.
                        await self.outbox.flush()
            if attempt.loan is not None:
                self._stop_clock(attempt)
                await self.inside.ready(attempt)
        except asyncio.CancelledError as error:
            if attempt.is_timed_out:
                self._fail(attempt, timed_out(attempt))
            elif self.is_cancelled():  # by `asyncio.run`, which cancels all tasks at its end
                self._give_up(attempt)
            else:  # raised by the step itself, or nobody wants its result any more
                self._fail(attempt, error)
        except KeyboardInterrupt:
            self._give_up(attempt)
            self._interrupted()
        except BaseException as error:
            self._fail(attempt, timed_out(attempt, error) if attempt.is_timed_out else error)
        else:
            if attempt.is_timed_out:
                self._fail(attempt, timed_out(attempt))
            elif attempt.loan is not None:
                # From here on nothing else may get a chance to write, until the turn takes the result in.
                attempt.held.inside = attempt
                self._succeed(attempt, value)
                attempt.held.inside = None
                await self.inside.commit(attempt)
            else:
                self._succeed(attempt, value)
        finally:
            try:
                if attempt.loan is not None:
                    await self.inside.end(attempt)
            finally:
                self._landed(attempt)

    async def _inside_middleware(self, attempt: Attempt, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        step = attempt.command.step
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_exit(partial(self.inside.left, attempt))
            for middleware in self._middleware:
                manager = middleware(attempt)
                if hasattr(manager, "__aenter__"):
                    await stack.enter_async_context(manager)
                elif hasattr(manager, "__enter__"):
                    stack.enter_context(manager)
                else:
                    raise no_manager(middleware, manager)
            if self.stand_in is not None and (double := self.stand_in(step, args, kwargs)) is not None:
                return await double
            if step.is_transactional:
                if attempt.has_sent:  # by its middleware; the transaction could hold it back
                    await self.outbox.flush()
                return await self.inside.execute(attempt, args, kwargs, self._threads.call, self._limit)
            if step.is_async:
                while not self._holds():  # noqa: ASYNC110  # its middleware took long; a lost lease cancels this
                    await asyncio.sleep(_PAUSE)
                return await step.fn(*args, **kwargs)
            return await self._in_thread(attempt, args, kwargs)

    async def _in_thread(self, attempt: Attempt, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Execute in a thread. A thread may take a while to begin, so the lease is checked once more inside it."""

        def begun(*args: Any, **kwargs: Any) -> Any:
            if attempt.is_settled or not self._holds():
                raise _NotBegun
            return attempt.command.step.fn(*args, **kwargs)

        while True:
            try:
                return await self._threads.call(begun, args, kwargs)
            except _NotBegun:
                if attempt.is_settled:
                    raise asyncio.CancelledError from None
            # If the lease is lost, this is cancelled.
            await asyncio.sleep(_PAUSE)

    def _succeed(self, attempt: Attempt, value: Any) -> None:
        if attempt.is_settled:
            return
        try:
            stored = attempt.command.shapes.result.encode(value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return self._end_failed(attempt, refused(attempt, error))
        self._settle(attempt)
        self._done(attempt, StepCompleted(self._clock.now(), attempt.key, attempt.attempt, stored))

    def _fail(self, attempt: Attempt, error: BaseException) -> None:
        if attempt.is_settled:
            return
        now = self._clock.now()
        error, pause = weighed(attempt, error, now, self.dice())
        if pause is None:
            return self._end_failed(attempt, error)
        stored = recorded(attempt, error, self._codec)
        self._settle(attempt)
        attempt_retrying(attempt, error, pause)
        self._done(
            attempt,
            StepRetrying(now, attempt.key, attempt.attempt, stored, now + pause, attempt.first_at, attempt.details),
        )

    def _end_failed(self, attempt: Attempt, error: BaseException) -> None:
        stored, done = recorded(attempt, error, self._codec), recorded_part(attempt)
        self._settle(attempt)
        step_failed(attempt, error)
        self._done(attempt, StepFailedEntry(self._clock.now(), attempt.key, attempt.attempt, stored, done))

    def _settle(self, attempt: Attempt) -> None:
        attempt.is_settled = True
        if attempt.is_holding:
            attempt.is_holding = attempt.held.is_committing = False
        # A `def` step that nobody wants any more may still be in its thread: its alarm says when to leave it behind.
        if attempt.alarm is not None and attempt.command.step.is_async:
            attempt.alarm.cancel()
            attempt.alarm = None

    def _time_out(self, attempt: Attempt) -> None:
        if attempt.is_settled:
            self._outstay(attempt)
            return
        attempt.is_timed_out = attempt.cancelled = True
        if attempt.command.step.is_async:
            self._cancel(attempt)
            # Its cleanup may take a moment. If it does not end by then, it is left behind.
            attempt.alarm = self._clock.call_at(self._clock.now() + _LINGER, partial(self._abandon, attempt))
        else:
            self._abandon(attempt)

    def _abandon(self, attempt: Attempt) -> None:
        if attempt.is_settled:
            return
        self._leave_behind(attempt, "its timeout")
        self._fail(attempt, timed_out(attempt))

    def _outstay(self, attempt: Attempt) -> None:
        """The attempt was called off, and has had time to notice."""
        if attempt.task is not None:
            self._leave_behind(attempt, "it was called off")

    def _leave_behind(self, attempt: Attempt, what: str) -> None:
        attempt.is_left = True
        _log.warning("%r went on after %s and was abandoned; whatever it returns will not be recorded", attempt, what)
        if attempt.loan is not None:
            # Others, such as the next attempt, may need rows that this one has locked.
            attempt.loan.abort()
        if not attempt.command.step.is_async:
            # Nobody waits for its thread any more; other attempts get threads of their own.
            self._landed(attempt)


class _NotBegun(BaseException):
    """The lease had lapsed, or nobody wanted the result any more, when the thread began."""
