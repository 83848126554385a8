"""A session that tells observers about its runs, steps and writes.

It is a class of its own, so that a worker without observers asks and makes nothing for them. It tells after the fact:
of a run's end once that is durable, of a step once it has come to an outcome.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from holdfast.define import current_scope
from holdfast.engine import Advance
from holdfast.model import (
    MESSAGES,
    ClaimedRun,
    History,
    Instant,
    RowWrite,
    StepCompleted,
    StepFailed,
    StepRetrying,
    Turn,
)
from holdfast.observe import (
    Fact,
    Load,
    MessageTaken,
    Observers,
    RowsWritten,
    RunBlocked,
    RunEnded,
    RunLost,
    RunReplayed,
    RunRetrying,
    RunsClaimed,
    RunsSwept,
    StepEnd,
    StepEnded,
    StepStatus,
    TurnsCommitted,
    WorkerBegan,
    WorkerEnded,
    WorkerLost,
)
from holdfast.store import Answer

from .admission import Admission
from .attempt import Attempt
from .attempts import Attempts, Outcome
from .commits import Verdict
from .held import Arrival, Held
from .plan import Plan
from .session import Session

_STATUSES: Mapping[type, StepStatus] = {StepCompleted: "completed", StepFailed: "failed", StepRetrying: "retrying"}


class WatchedAttempts(Attempts):
    """Steps in flight, observed.

    Every step takes this path, so whatever has a cheaper way takes that: observers that can wait are told in one call
    of everything that has ended, when the loop has time for it.
    """

    __slots__ = (
        "_after", "_at_once", "_enters", "_in_groups", "_is_called", "_is_next", "_runs", "_steps", "holds",
        "observers",
    )  # fmt: skip  # a name a line would be a page
    observers: Observers

    def watch(self, observers: Observers) -> None:
        """Tell these observers from here on."""
        self.observers = observers
        self._enters, self.holds = observers.methods("enter"), observers.methods("hold")
        self._at_once = observers.at_once
        self._in_groups = observers.in_groups
        self._steps: list[StepEnd] = []
        self._runs: list[RunEnded] = []
        """Facts of which the observers that are told in groups have yet to hear."""
        self._is_called = self._is_next = False
        if self._enters:
            self._enter = self._watched_enter
        self._after: Callable[[Attempt, Outcome], None] = self._done
        self._done = self._watched_done

    def _watched_enter(self, attempt: Attempt) -> None:
        current_scope.set(attempt)
        attempt.span = None
        for enter in self._enters:
            try:
                enter(attempt)
            except Exception:
                self.observers.failed(enter)

    def _watched_done(self, attempt: Attempt, outcome: Outcome) -> None:
        if outcome.__class__ is StepCompleted and not self._at_once:
            # The same as `_ended`, inlined, since every step comes here.
            self._steps.append((attempt, "completed", outcome.at))
            if not self._is_called:
                self._call()
        else:
            self._ended(attempt, _STATUSES[outcome.__class__], outcome.at)
        self._after(attempt, outcome)

    def _ended(self, attempt: Attempt, status: StepStatus, at: Instant) -> None:
        self._tell_each(StepEnded(attempt, status, attempt.began_at, at, getattr(attempt, "error", None)))
        self._steps.append((attempt, status, at))
        if not self._is_called:
            self._call()

    def run_ended(self, fact: RunEnded) -> None:
        """Tell of the end of a run."""
        if self._at_once:
            self._tell_each(fact)
        if self._in_groups:
            self._runs.append(fact)
            if not self._is_next:
                # Together with everything that the same commit has ended, and before anybody who waits for these runs
                # can ask for numbers.
                self._is_next = True
                self._loop.call_soon(self._tell_next, context=self._context)

    def tell(self, fact: Fact) -> None:
        """Tell all observers of another fact, after everything that has ended so far."""
        self._tell_group()
        self.observers.tell(fact)

    def _tell_each(self, fact: Fact) -> None:
        for observe in self._at_once:
            try:
                observe(fact)
            except Exception:
                self.observers.failed(observe)

    def _call(self) -> None:
        # After two turns of the loop. By the end of the first, the turns with these results are on their way to the
        # store, and the next look at the sockets lets the store's thread work: what is done here then overlaps with its
        # write.
        self._is_called = True
        self._loop.call_soon(self._call_again, context=self._context)

    def _call_again(self) -> None:
        self._loop.call_soon(self._called, context=self._context)

    def _called(self) -> None:
        self._is_called = False
        self._tell_group()

    def _tell_next(self) -> None:
        self._is_next = False
        self._tell_group()

    def _tell_group(self) -> None:
        if self._steps or self._runs:
            steps, self._steps = self._steps, []
            runs, self._runs = self._runs, []
            for observe in self._in_groups:
                try:
                    observe(steps, runs)
                except Exception:
                    self.observers.failed(observe)

    def close(self) -> None:
        super().close()
        self._tell_group()

    def _fail(self, attempt: Attempt, error: BaseException) -> None:
        attempt.error = error
        super()._fail(attempt, error)

    def _end_failed(self, attempt: Attempt, error: BaseException) -> None:
        attempt.error = error
        super()._end_failed(attempt, error)

    def withdraw(self, attempt: Attempt) -> None:
        if not attempt.is_settled and attempt.task is not None and hasattr(attempt, "began_at"):
            self._ended(attempt, "cancelled", self._clock.now())
        super().withdraw(attempt)


class WatchedRuns(Admission):
    """The runs that a worker holds, observed."""

    __slots__ = ()
    attempts: WatchedAttempts

    def _hold(self, claimed: ClaimedRun) -> Held:
        held = super()._hold(claimed)
        if held.info.span is None:
            for hold in self.attempts.holds:
                try:
                    hold(held.info)
                except Exception:
                    self.attempts.observers.failed(hold)
        return held

    def replay(self, held: Held, history: History) -> bool:
        is_done = super().replay(held, history)
        if is_done and history.entries:
            self.attempts.tell(RunReplayed(held.info, held.info.journal_length))
        return is_done

    def _progress(self, held: Held, turn: Turn, done: Advance) -> None:
        super()._progress(held, turn, done)
        if turn.taken:
            traces = {id(entry): trace for entry, trace in done.traces}
            for entry in done.entries:
                if isinstance(entry, MESSAGES):
                    trace = traces.get(id(entry))
                    self.attempts.tell(MessageTaken(held.info, entry.kind, entry.name, entry.at, trace))
        if done.ended is not None:
            assert turn.change is not None
            self.attempts.run_ended(RunEnded(held.info, turn.change.status, done.ended.at))
        elif done.retrying is not None:
            self.attempts.tell(RunRetrying(held.info))

    def _not_committed(self, held: Held, verdict: Verdict) -> None:
        if verdict is False:
            self.attempts.tell(RunLost(held.info))
        super()._not_committed(held, verdict)

    def block(self, held: Held, error: Exception, taken: Sequence[Arrival] = ()) -> None:
        self.attempts.tell(RunBlocked(held.info, type(error).__name__))
        super().block(held, error, taken)


class WatchedSession(Session):
    """One registration of a worker, observed."""

    _runs_of = WatchedRuns
    _attempts_of = WatchedAttempts
    _attempts: WatchedAttempts

    def __init__(self, plan: Plan, resources: Any, interrupted: Callable[[], None]) -> None:
        super().__init__(plan, resources, interrupted)
        self.swept = lambda swept: self._attempts.tell(RunsSwept(len(swept.run_ids), swept.events))

    async def register(self) -> None:
        await super().register()
        assert self._plan.observers is not None
        assert isinstance(self.runs, WatchedRuns)
        assert isinstance(self.runs.attempts, WatchedAttempts)
        self._attempts = self.runs.attempts
        self._attempts.watch(self._plan.observers)

    def start(self, *, with_pulse: bool = True, is_serving: bool = True) -> None:
        super().start(with_pulse=with_pulse, is_serving=is_serving)
        self._attempts.tell(WorkerBegan(self.worker_id, self._load))

    def lost(self) -> None:
        if not self.ended.is_set():
            self._attempts.tell(WorkerLost(self.worker_id))
        super().lost()

    def leave(self) -> None:
        if not self.ended.is_set():
            self._attempts.tell(WorkerEnded(self.worker_id))
        super().leave()

    def _load(self) -> Load:
        # Called from any thread; `list` copies the values in one go.
        runs = self.runs
        held = Counter(held.info.workflow for held in list(runs.held.values()))
        return Load(held, runs.busy, len(runs.attempts.tasks), len(runs.parked))

    async def _claim(self, limit: int, run_id: str | None = None, *, is_ahead: bool = False) -> list[ClaimedRun]:
        asked_at = self._clock.monotonic()
        claimed = await super()._claim(limit, run_id, is_ahead=is_ahead)
        if claimed:
            self._attempts.tell(RunsClaimed(claimed, self._clock.monotonic() - asked_at))
        return claimed

    def _commit(self, turns: Sequence[Turn]) -> Awaitable[Sequence[Answer]]:
        return self._timed(super()._commit(turns), TurnsCommitted, len(turns))

    def _write(self, writes: Sequence[RowWrite]) -> Awaitable[Sequence[Answer]]:
        return self._timed(super()._write(writes), RowsWritten, len(writes))

    def _timed(
        self, answering: Awaitable[Sequence[Answer]], fact: type[TurnsCommitted | RowsWritten], count: int
    ) -> Awaitable[Sequence[Answer]]:
        # No coroutine around it: that would be a task, and the answer would come two turns of the loop later.
        asked_at = self._clock.monotonic()

        def answered(answer: asyncio.Future[Sequence[Answer]]) -> None:
            if not answer.cancelled() and answer.exception() is None:
                self._attempts.tell(fact(count, self._clock.monotonic() - asked_at))

        future = asyncio.ensure_future(answering)
        future.add_done_callback(answered, context=self._context)
        return future


def new_session(plan: Plan, resources: Any, interrupted: Callable[[], None]) -> Session:
    """A session for this plan: one that tells observers, if there are any."""
    return (Session if plan.observers is None else WatchedSession)(plan, resources, interrupted)
