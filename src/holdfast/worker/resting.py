"""How a run rests in a worker and how it leaves: alarms, parking, dropping, handing back.

A short wait stays in memory with its worker; a long one is parked in the database. The body of a parked run stays in
memory as long as that is cheap: if the run comes back to this worker, it goes on without replay. Every body that leaves
memory is put away first.
"""

from __future__ import annotations

import asyncio
import contextvars
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping

from holdfast.model import Instant, RowChange, RowWrite, RunStatus

from .attempts import Attempts
from .clock import Clock
from .commits import GroupWriter, Verdict
from .held import Held
from .memory import is_tight

PARK_AFTER = 10_000_000
"""A wait at least this long is parked in the database; a shorter one stays with its worker."""
_LOOK_EVERY = 256
_SEEN_AGAIN = 60_000_000


class Resting(ABC):
    """The runs that one worker holds, and parked runs whose bodies it still has."""

    # Slots: of more than thirty attributes in a dict the interpreter finds none by its shortcut, and every step asks
    # for dozens.
    __slots__ = (
        "_clock", "_context", "_freed", "_keep_parked", "_loop", "_parkings", "_rows", "_suspect", "_trial_ends_at",
        "attempts", "busy", "cleared", "held", "is_lenient", "is_stopping", "parked", "strayed", "worker_id",
    )  # fmt: skip  # a name a line would be a page
    attempts: Attempts
    cleared: Callable[[], None]
    """Called when a suspect may be claimed again."""
    strayed: Callable[[], None]
    """Called when runs were dropped because their turns were refused: perhaps nobody else has them."""

    def __init__(
        self,
        worker_id: str,
        clock: Clock,
        rows: GroupWriter[RowWrite, Held],
        *,
        keep_parked: int,
        freed: Callable[[], None],
    ) -> None:
        self.worker_id = worker_id
        self.held: dict[str, Held] = {}
        self._loop, self._context = asyncio.get_running_loop(), contextvars.copy_context()
        self.parked: dict[str, Held] = {}
        """Parked runs whose bodies are in memory, oldest first."""
        self.busy = 0
        """How many runs advance or have a step in flight."""
        self.is_stopping = False
        self.is_lenient = False
        """In a test environment crashes are the test's own doing, and count against no run."""
        self._clock = clock
        self._rows = rows
        self._keep_parked = keep_parked
        self._parkings = 0
        self._freed = freed
        self._suspect: Held | None = None
        """A run with which workers have died, and which has not shown since that it can get on."""
        self._trial_ends_at: Instant = 0

    def waiting(
        self, due_at: Instant | None, *, crashes: int = 0, blocked: str | None = None, release: bool | None = None
    ) -> RowChange:
        """The change of a row for a run that waits until `due_at`, or for a message."""
        if release is None:
            release = due_at is None or due_at - self._clock.now() >= PARK_AFTER
        return RowChange(status=RunStatus.WAITING, due_at=due_at, release=release, crashes=crashes, blocked=blocked)

    def wake_at(self, held: Held) -> Instant | None:
        """When the run must be woken if nothing else happens."""
        times: list[Instant] = []
        if held.history is not None and held.history.retrying is not None:
            times.append(held.history.retrying.retry_at)
        elif held.execution is not None:
            timer = held.execution.next_timer()
            if timer is not None:
                times.append(timer)
            for command in held.execution.commands.values():
                if command.retry_at is None or command.key in held.attempts or command.key in held.held_up:
                    continue
                times.append(command.retry_at)
        if held.info.deadline_instant is not None and not held.is_deadline_told:
            times.append(held.info.deadline_instant)
        return min(times, default=None)

    def row_at_rest(self, held: Held, *, crashes: int = 0) -> RowChange:
        """The change of a row for a run that waits. A run that a thread may stop stays here with its body."""
        due_at = self.wake_at(held)
        change = self.waiting(due_at, crashes=crashes)
        if change.release and held.execution is not None and held.execution.may_be_stopped:
            return self.waiting(due_at, crashes=crashes, release=False)
        return change

    def due_elsewhere(self, held: Held) -> Instant | None:
        """When a run that leaves this worker must be woken. If a thread may stop it, another worker is to find out
        soon."""
        due_at = self.wake_at(held)
        if held.execution is not None and held.execution.may_be_stopped:
            soon = self._clock.now() + _SEEN_AGAIN
            return soon if due_at is None else min(due_at, soon)
        return due_at

    def write_row(self, held: Held, change: RowChange, *, is_fenced: bool = True) -> None:
        """Write the run's row only. No turn is taken before that is answered, for it carries the next seq.

        Without `is_fenced` it does not: a write of ours may still happen, and the next claim has to be a takeover,
        which fences that out.
        """
        held.is_committing = True
        next_seq = held.seq if is_fenced else None
        self._rows.add(
            RowWrite(run_id=held.id, worker_id=self.worker_id, epoch=held.epoch, next_seq=next_seq, change=change),
            self._row_written,
            held,
        )

    @abstractmethod
    def _row_written(self, held: Held, write: RowWrite, verdict: Verdict) -> None:
        """A row-only write has been answered."""

    def row_says(self, held: Held, change: RowChange) -> None:
        """Remember what the run's row says, to save writing it again."""
        held.is_row_waiting = change.status is RunStatus.WAITING
        held.row_due = change.due_at

    def park(self, held: Held) -> None:
        """The store has the run back."""
        self._let_go(held)
        held.is_parked = True
        # A message that arrived meanwhile is still fresh in the inbox: it wakes the run at once, and comes with the
        # claim. To rebuild the body for each would cost a busy run its whole journal every time.
        is_whole = all(one.is_in_inbox for one in held.arrivals)
        held.arrivals = ()
        if held.execution is None or held.journal is not None or not is_whole:
            # A result that arrived meanwhile belongs to a step that nobody waits for any more, or that is asked for
            # anew when the run is tried again.
            self.discard(held)
        else:
            held.execution.rest()
            self.parked[held.id] = held
            self._make_room()

    def _make_room(self) -> None:
        """Discard the oldest bodies when there are too many, or memory is tight. They are rebuilt when their runs
        wake."""
        count = len(self.parked)
        surplus = count - self._keep_parked
        self._parkings += 1
        if self._parkings % _LOOK_EVERY == 0 and is_tight():
            surplus = max(surplus, count // 4)
        for _ in range(surplus):
            self.discard(self.parked.pop(next(iter(self.parked))))

    def drop(self, held: Held) -> None:
        """Let go of a run at once: it has ended, or belongs to somebody else."""
        held.is_lost = True
        self.parked.pop(held.id, None)
        self._let_go(held)
        self.discard(held)

    def drop_all(self) -> None:
        for held in [*self.held.values(), *self.parked.values()]:
            self.drop(held)

    def _let_go(self, held: Held) -> None:
        self.held.pop(held.id, None)
        if held.alarm is not None:
            held.alarm.cancel()
            held.alarm = held.alarm_at = None
        self.acquit(held)
        self.set_busy(held, False)
        self.cancel_attempts(held)

    def acquit(self, held: Held) -> None:
        """The run got on, only waits, or is gone: the next suspect may come."""
        if self._suspect is held:
            self._suspect = None
            self.cleared()

    def cancel_attempts(self, held: Held) -> None:
        for attempt in held.attempts.values():
            self.attempts.withdraw(attempt)
        held.attempts = {}

    def discard(self, held: Held) -> None:
        execution, held.execution = held.execution, None
        if execution is not None:
            execution.put_away()

    def set_busy(self, held: Held, is_busy: bool) -> None:
        if held.is_busy is not is_busy:
            held.is_busy = is_busy
            self.busy += 1 if is_busy else -1
            if not is_busy:
                self._freed()

    def cached(self) -> Mapping[str, int]:
        """The parked runs whose journals need not be read again, and the seq up to which each is known."""
        return _Cached(self.parked)


class _Cached(Mapping[str, int]):
    def __init__(self, parked: dict[str, Held]) -> None:
        self._parked = parked

    def __getitem__(self, run_id: str) -> int:
        return self._parked[run_id].seq

    def __iter__(self) -> Iterator[str]:
        return iter(self._parked)

    def __len__(self) -> int:
        return len(self._parked)
