"""A worker that crashes at a given write.

Every write is a commit point. A crash before it loses the write; one after it loses only the answer. Either way the
process is dead: its later writes go nowhere, and another session takes its runs over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import msgspec

from holdfast.define import StepInfo, current_scope
from holdfast.model import (
    ClaimedRun,
    Entry,
    Instant,
    Lane,
    NewRun,
    RowWrite,
    RunRetrying,
    StartedRun,
    StepCompleted,
    StepFailed,
    Turn,
    decode_entries,
    moment_of,
)
from holdfast.store import Lender, Loan, Undone

from .clock import ManualClock
from .driver import Driver
from .environment import MemoryStore

T = TypeVar("T")
_SEED = b"holdfast testing"


@dataclass(frozen=True, slots=True)
class Crash:
    """Where to crash: at which commit point, and before or after it."""

    number: int
    is_after: bool

    @property
    def side(self) -> str:
        return "after" if self.is_after else "before"


@dataclass(frozen=True, slots=True)
class CommitPoint:
    """One write: its number, from 1, and what it writes."""

    number: int
    text: str

    def __str__(self) -> str:
        return f"commit {self.number} ({self.text})"


class CrashingStore(MemoryStore):
    """Counts commit points, and crashes its caller at one of them."""

    def __init__(self, clock: ManualClock, crash: Crash | None) -> None:
        super().__init__(clock)
        self.points: list[CommitPoint] = []
        self.recorded: dict[tuple[str, str], CommitPoint] = {}
        """The commit point at which each step's result was recorded, by run and key."""
        self.is_starting = False
        """Whether the trial's own start is under way, which may crash. A test's client is in another process."""
        self.crashed: CommitPoint | None = None
        self.on_crash: Callable[[], None] | None = None
        """Called when the crash happens."""
        self._crash = crash
        self._down = asyncio.Event()
        self._hung: set[asyncio.Future[NoReturn]] = set()

    async def start_runs(self, runs: Sequence[NewRun], *, now: Instant | None = None) -> list[StartedRun]:
        # The same seed in every run, so that the outcomes can be compared.
        runs = [msgspec.structs.replace(run, seed=_SEED) for run in runs]
        if not self.is_starting and not isinstance(current_scope.get(), StepInfo):
            return await super().start_runs(runs, now=now)
        point = await self._reach("start of " + ", ".join(dict.fromkeys(run.workflow for run in runs)))
        return await self._pass(point, await super().start_runs(runs, now=now))

    async def claim_runs(
        self,
        worker_id: str,
        lanes: Sequence[Lane],
        limit: int,
        *,
        run_id: str | None = None,
        cached: Mapping[str, int] | None = None,
        unbegun: bool = False,
        suspects: int | None = None,
        now: Instant | None = None,
    ) -> list[ClaimedRun]:
        point = await self._reach("claim")
        claimed = await super().claim_runs(
            worker_id, lanes, limit, run_id=run_id, cached=cached, unbegun=unbegun, suspects=suspects, now=now
        )
        return await self._pass(point, claimed)

    async def commit_turns(self, turns: Sequence[Turn], *, now: Instant | None = None) -> list[bool]:
        point = await self._reach("; ".join(_turn_text(turn) for turn in turns))
        accepted = await super().commit_turns(turns, now=now)
        for turn, is_accepted in zip(turns, accepted, strict=True):
            if is_accepted:
                self._record(turn, point)
        return await self._pass(point, accepted)

    async def write_rows(self, writes: Sequence[RowWrite]) -> list[bool]:
        point = await self._reach("; ".join(_write_text(write) for write in writes))
        return await self._pass(point, await super().write_rows(writes))

    def lender(self, lease: int) -> Lender:
        return _CrashingLender(self, super().lender(lease))

    async def commit_inside(self, loan: Loan, turn: Turn, now: Instant | None) -> bool | Undone:
        """Commit a transactional step, which is a commit point like any other."""
        if self.is_down:
            # The step's thread has ended after the crash, and `recover` waits for the step: it must not hang.
            raise asyncio.CancelledError
        point = await self._reach(_turn_text(turn))
        answer = await loan.commit(turn, now=now)
        if answer is True:
            self._record(turn, point)
        return await self._pass(point, answer)

    @property
    def is_down(self) -> bool:
        """Whether the process has crashed and the next one is not up yet."""
        return self._down.is_set()

    async def survive(self, work: Coroutine[Any, Any, T]) -> tuple[T] | None:
        """The result of the work in a tuple; None if its process crashed meanwhile."""
        working, crashing = asyncio.ensure_future(work), asyncio.ensure_future(self._down.wait())
        try:
            await asyncio.wait([working, crashing], return_when=asyncio.FIRST_COMPLETED)
            return (working.result(),) if working.done() else None
        finally:
            working.cancel()
            crashing.cancel()

    def revive(self) -> None:
        """The next process is up. Calls that hung in the dead one are cancelled."""
        self._down.clear()
        for future in self._hung:
            future.cancel()
        self._hung.clear()

    async def _reach(self, text: str) -> CommitPoint:
        """A write is about to begin: crash here if the crash is before this point."""
        if self.is_down:
            await self._hang()
        point = CommitPoint(len(self.points) + 1, text)
        self.points.append(point)
        if self._crash == Crash(point.number, is_after=False):
            await self._go_down(point)
        return point

    async def _pass(self, point: CommitPoint, answer: T) -> T:
        """A write is durable: crash here if the crash is after this point."""
        if self._crash == Crash(point.number, is_after=True):
            await self._go_down(point)
        return answer

    async def _go_down(self, point: CommitPoint) -> NoReturn:
        self._down.set()
        self.crashed = point
        if self.on_crash is not None:
            self.on_crash()
        await self._hang()

    async def _hang(self) -> NoReturn:
        future: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()
        self._hung.add(future)
        await future
        raise AssertionError("a dead process was answered")

    def _record(self, turn: Turn, point: CommitPoint) -> None:
        for entry in decode_entries(turn.data):
            if isinstance(entry, (StepCompleted, StepFailed)):
                self.recorded[turn.run_id, entry.key] = point
            elif isinstance(entry, RunRetrying):
                # The run goes back to its last failure: later steps may execute again.
                self.recorded = {held: at for held, at in self.recorded.items() if held[0] != turn.run_id}


class _CrashingLender:
    """Lends the store's loans, with their commits as commit points."""

    def __init__(self, store: CrashingStore, lender: Lender) -> None:
        self._store = store
        self._lender = lender
        self.is_async = lender.is_async
        self.is_exclusive = lender.is_exclusive
        self.kind = lender.kind
        self.timeout = lender.timeout

    def lend(self) -> Loan:
        return _CrashingLoan(self._store, self._lender.lend())

    def close(self) -> None:
        self._lender.close()


class _CrashingLoan:
    def __init__(self, store: CrashingStore, loan: Loan) -> None:
        self._store = store
        self._loan = loan
        self.begin = loan.begin
        self.check = loan.check
        self.end = loan.end
        self.abort = loan.abort

    @property
    def connection(self) -> Any:
        return self._loan.connection

    async def commit(self, turn: Turn, *, now: Instant | None) -> bool | Undone:
        return await self._store.commit_inside(self._loan, turn, now)


class CrashingDriver(Driver):
    """A driver whose session dies when the store crashes, and that then begins another session."""

    def __init__(self, store: CrashingStore, *args: Any) -> None:
        super().__init__(*args)
        self._store = store
        store.on_crash = self.wake

    async def look(self) -> int:
        found = await self._store.survive(self.session.look())
        return 0 if found is None else found[0]

    async def recover(self) -> bool:
        """End the session that has crashed, and begin another one, which takes over its runs."""
        if not self._store.is_down:
            return False
        attempts = [one for held in self.session.runs.held.values() for one in held.attempts.values()]
        threads = {one.task for one in attempts if one.task is not None and _is_in_thread(one)}
        if threads := threads - self._resting.keys():
            # A thread can't be killed: it runs to its end, and its result goes nowhere.
            await asyncio.wait(threads)
        dead = self.session.worker_id
        await self.end_session()
        self._store.revive()
        # The lease ends at once, as for a process that died on this host. So the crash makes no timer late, and times
        # alone don't make the outcomes differ.
        await self._store.remove_worker(dead)
        await self.begin_session()
        return True


def _is_in_thread(attempt: Any) -> bool:
    """Whether a thread executes it, so that it can't be cancelled. One that still waits for its transaction can be."""
    step = attempt.command.step
    return not step.is_async and (attempt.loan is not None or not step.is_transactional)


def _turn_text(turn: Turn) -> str:
    entries = [_entry_text(entry) for entry in decode_entries(turn.data)]
    return f"turn {turn.seq + 1}: {', '.join(entries)}"


def _entry_text(entry: Entry) -> str:
    name: str | None = getattr(entry, "key", None) or getattr(entry, "status", None)
    return entry.kind if name is None else f"{entry.kind} {name}"


def _write_text(write: RowWrite) -> str:
    change = write.change
    if change.blocked is not None:
        return "the run is blocked"
    if change.due_at is not None:
        return f"the run waits until {moment_of(change.due_at):%Y-%m-%d %H:%M:%S}"
    return f"the run is {change.status}"
