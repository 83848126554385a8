"""A session whose runs, steps and writes are told to observers.

It is another class, so that where nobody observes there is nothing to ask and nothing to make. What it tells, it tells
after the fact: a run's end once it is durable, a step's once it has come to something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast.define import current_scope
from holdfast.model import (
    MESSAGES,
    ClaimedRun,
    History,
    RowWrite,
    RunStatus,
    StepCompleted,
    StepRetrying,
    Turn,
)
from holdfast.observe import (
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
    StepEnded,
    StepStatus,
    TurnsCommitted,
    WorkerBegan,
    WorkerEnded,
    WorkerLost,
)
from holdfast.store import Answer

from .admission import Admission
from .attempts import Attempt, Attempts, Outcome
from .commits import Verdict
from .held import Arrival, Held
from .plan import Plan
from .session import Session


class WatchedAttempts(Attempts):
    """Steps in flight, observed."""

    observers: Observers

    def watch(self, observers: Observers) -> None:
        """From here on, tell these."""
        self.observers = observers
        self._enter = self._watched_enter
        self._after: Callable[[Attempt, Outcome], None] = self._done
        self._done = self._watched_done

    def _watched_enter(self, attempt: Attempt) -> None:
        current_scope.set(attempt)
        step = attempt.command.step
        attempt.kind = "transaction" if step.is_transactional else "async" if step.is_async else "thread"
        attempt.began_at = self._clock.now()
        attempt.error = attempt.span = None
        self.observers.enter(attempt)

    def _watched_done(self, attempt: Attempt, outcome: Outcome) -> None:
        kind = outcome.__class__
        status: StepStatus = "completed"
        if kind is not StepCompleted:
            status = "retrying" if kind is StepRetrying else "failed"
        self.observers.tell(StepEnded(attempt, status, attempt.began_at, outcome.at, attempt.error))
        self._after(attempt, outcome)

    def _fail(self, attempt: Attempt, error: BaseException) -> None:
        attempt.error = error
        super()._fail(attempt, error)

    def _end_failed(self, attempt: Attempt, error: BaseException) -> None:
        attempt.error = error
        super()._end_failed(attempt, error)

    def withdraw(self, attempt: Attempt) -> None:
        if not attempt.is_settled and attempt.task is not None and hasattr(attempt, "began_at"):
            self.observers.tell(StepEnded(attempt, "cancelled", attempt.began_at, self._clock.now(), None))
        super().withdraw(attempt)


class WatchedRuns(Admission):
    """The runs that a worker holds, observed."""

    observers: Observers

    def _hold(self, claimed: ClaimedRun) -> Held:
        held = super()._hold(claimed)
        if held.info.span is None:
            self.observers.hold(held.info)
        return held

    def replay(self, held: Held, history: History) -> bool:
        is_done = super().replay(held, history)
        if is_done and history.entries:
            self.observers.tell(RunReplayed(held.info, held.info.journal_length))
        return is_done

    def _committed(self, held: Held, turn: Turn, verdict: Verdict) -> None:
        done = held.sent
        if verdict is True and done is not None and not held.is_lost:
            if turn.taken:
                traces = {id(entry): trace for entry, trace in done.traces}
                for entry in done.entries:
                    if isinstance(entry, MESSAGES):
                        trace = traces.get(id(entry))
                        self.observers.tell(MessageTaken(held.info, entry.kind, entry.name, entry.at, trace))
            if done.ended is not None:
                self.observers.tell(RunEnded(held.info, RunStatus(done.ended.status), done.ended.at))
            elif done.retrying is not None:
                self.observers.tell(RunRetrying(held.info))
        super()._committed(held, turn, verdict)

    def _not_committed(self, held: Held, verdict: Verdict) -> None:
        if verdict is False:
            self.observers.tell(RunLost(held.info))
        super()._not_committed(held, verdict)

    def block(self, held: Held, error: Exception, taken: Sequence[Arrival] = ()) -> None:
        self.observers.tell(RunBlocked(held.info, type(error).__name__))
        super().block(held, error, taken)


class WatchedSession(Session):
    """One registration of a worker, observed."""

    _runs_of = WatchedRuns
    _attempts_of = WatchedAttempts
    _took: int | None = None

    def __init__(self, plan: Plan, resources: Any, interrupted: Callable[[], None]) -> None:
        super().__init__(plan, resources, interrupted)
        assert plan.observers is not None
        self._observers = plan.observers
        self.swept = lambda swept: self._observers.tell(RunsSwept(len(swept.run_ids), swept.events))

    async def register(self) -> None:
        await super().register()
        assert isinstance(self.runs, WatchedRuns)
        assert isinstance(self.runs.attempts, WatchedAttempts)
        self.runs.observers = self._observers
        self.runs.attempts.watch(self._observers)

    def start(self, *, with_pulse: bool = True, is_serving: bool = True) -> None:
        super().start(with_pulse=with_pulse, is_serving=is_serving)
        self._observers.tell(WorkerBegan(self.worker_id, self._load))

    def lost(self) -> None:
        if not self.ended.is_set():
            self._observers.tell(WorkerLost(self.worker_id))
        super().lost()

    def leave(self) -> None:
        if not self.ended.is_set():
            self._observers.tell(WorkerEnded(self.worker_id))
        super().leave()

    def _load(self) -> Load:
        # From any thread: `list` takes what is there in one go.
        runs = self.runs
        held = Counter(held.info.workflow for held in list(runs.held.values()))
        return Load(held, runs.busy, len(runs.attempts.tasks), len(runs.parked))

    async def _claim(self, limit: int) -> list[ClaimedRun]:
        asked_at = self._clock.monotonic()
        claimed = await super()._claim(limit)
        self._took = self._clock.monotonic() - asked_at
        return claimed

    async def _admit(self, claimed: Sequence[ClaimedRun]) -> None:
        if claimed:
            self._observers.tell(RunsClaimed(claimed, self._took))
            self._took = None
        await super()._admit(claimed)

    def _commit(self, turns: Sequence[Turn]) -> Awaitable[Sequence[Answer]]:
        return self._timed(super()._commit(turns), lambda took: TurnsCommitted(len(turns), took))

    def _write(self, writes: Sequence[RowWrite]) -> Awaitable[Sequence[Answer]]:
        return self._timed(super()._write(writes), lambda took: RowsWritten(len(writes), took))

    async def _timed(
        self, answering: Awaitable[Sequence[Answer]], fact: Callable[[int], TurnsCommitted | RowsWritten]
    ) -> Sequence[Answer]:
        asked_at = self._clock.monotonic()
        answers = await answering
        self._observers.tell(fact(self._clock.monotonic() - asked_at))
        return answers


def new_session(plan: Plan, resources: Any, interrupted: Callable[[], None]) -> Session:
    """A session for this plan: one that tells, if there is somebody to tell."""
    return (Session if plan.observers is None else WatchedSession)(plan, resources, interrupted)
