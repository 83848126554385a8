"""How a run waits: open steps begin when they may, alarms ring, short waits stay here and long ones are parked.

Also how a run is given up: handed back when the worker stops, or blocked, which leaves it intact and says why. Results
that came for a body that can't go on are committed together with the reason. Crash before that: their steps execute
again, as after any crash. Crash after it: whoever tries the run next finds them in its journal.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from holdfast.codec import Codec, message_of
from holdfast.define import HouseLogger, RunInfo
from holdfast.engine import Command
from holdfast.errors import StoreError
from holdfast.model import Blocked, Entry, Instant, Message, Out, RowChange, RowWrite, Turn
from holdfast.store import Undone

from .clock import Clock
from .commits import GroupWriter, Verdict
from .held import NO_KEYS, RESULT, Arrival, Held
from .resting import Resting

_log = HouseLogger("holdfast.worker")
REMEMBERED = 10_000
"""How many messages and blocked runs a worker remembers, because it may meet them again."""
_NAMED = 5
"""How many of the runs that were taken over a log line names."""


class Waits(Resting):
    """The part of a worker's runs that is about the time between two turns."""

    __slots__ = (
        "_block_counts", "_concurrency", "_heard_at", "_held_up", "_mailed", "_may_begin", "_taken", "_taken_over",
        "compare", "line", "listen", "reserved",
    )  # fmt: skip  # a name a line would be a page
    _codec: Codec

    def __init__(
        self,
        worker_id: str,
        clock: Clock,
        rows: GroupWriter[RowWrite, Held],
        *,
        concurrency: int,
        keep_parked: int,
        may_begin: Callable[[], bool],
        freed: Callable[[], None],
    ) -> None:
        super().__init__(worker_id, clock, rows, keep_parked=keep_parked, freed=freed)
        self.line: dict[str, Held] = {}
        """Runs in memory that were woken while the worker was busy, first come first served."""
        self.reserved = 0
        """How many places are kept for a claim under way."""
        self._concurrency = concurrency
        self._may_begin = may_begin
        self.listen: Callable[[Held], None] | None = None
        """Makes the inbox be read before a run with a due timer goes on; see listening.py."""
        self.compare: Callable[[Held, Callable[[], None]], None] | None = None
        """Compares a rebuilt run's waits with the store's before it goes on; see registrations.py."""
        self._heard_at: dict[str, Instant] = {}
        """When the inbox was read for the runs in line, if it was."""
        self._taken: OrderedDict[int, None] = OrderedDict()
        """The ids of messages that turns have taken lately, oldest first."""
        self._mailed: set[str] = set()
        """The ids of runs that may have messages here which are still in the inbox."""
        self._held_up: dict[str, Held] = {}
        self._block_counts: dict[str, int] = {}
        """How often in a row each run was blocked here, lately."""
        self._taken_over: list[RunInfo] = []
        """Runs that were lost in this turn of the loop."""

    @abstractmethod
    def resume(self, held: Held, *, heard_at: Instant = 0) -> None:
        """Let a run go on: arrivals, due timers, open steps. If there is none of these, it waits.

        All messages that were sent before `heard_at` have arrived.
        """

    @abstractmethod
    def write_turn(
        self,
        held: Held,
        entries: Sequence[Entry],
        change: RowChange | None,
        taken: tuple[int, ...],
        told: Callable[[Held, Turn, Verdict], None],
        out: Out | None = None,
    ) -> None:
        """Send a turn on its way; `told` is called with its verdict."""

    def _begin(self, held: Held, command: Command) -> None:
        if self.is_stopping or self._is_too_late(held):
            return
        held.is_takeover = False
        if self._may_begin():
            self.attempts.begin(held, command)
        else:
            # The lease has lapsed: nothing begins until it is renewed. If it is lost, so is this run.
            held.held_up |= {command.key}
            self._held_up[held.id] = held

    def _is_too_late(self, held: Held) -> bool:
        """Whether no step may begin because the deadline has passed and is delivered next. Cleanup is exempt."""
        deadline = held.info.deadline_instant
        return deadline is not None and deadline <= self._clock.now() and not held.is_exempt

    def _has_due_steps(self, held: Held) -> bool:
        now = self._clock.now()
        return any(command.retry_at is None or command.retry_at <= now for command in open_commands(held))

    @abstractmethod
    def _is_stopped(self, held: Held) -> bool:
        """Whether the run has crashed too often to begin another step; then it is ended here."""

    def _begin_open(self, held: Held) -> None:
        """Begin the steps that are open and due."""
        now = self._clock.now()
        for command in open_commands(held):
            is_due = command.retry_at is None or command.retry_at <= now
            if is_due and command.key not in held.attempts and command.key not in held.held_up:
                self._begin(held, command)

    def renewed(self) -> None:
        """The lease holds again: begin the steps that it held up."""
        held_up, self._held_up = self._held_up, {}
        for held in held_up.values():
            keys, held.held_up = held.held_up, NO_KEYS
            if held.is_lost or held.id not in self.held:
                continue
            if held.is_pausing:
                # These steps begin when the run is resumed.
                self.pause(held)
                continue
            # Also while a turn is being committed, for an earlier turn asked for these steps.
            for command in open_commands(held):
                if command.key in keys and command.key not in held.attempts:
                    self._begin(held, command)
            if not held.attempts and not held.arrivals:
                self._settle(held)

    def _settle(self, held: Held) -> None:
        """Nothing has arrived: begin the steps that are open and due, else wait."""
        if held.is_lost or held.is_committing or held.id not in self.held:
            return
        if held.crashes and self._is_stopped(held):
            return
        self._begin_open(held)
        if held.attempts or held.held_up:
            self.set_busy(held, True)
            self._set_alarm(held, self.wake_at(held))
        elif self.is_stopping:
            self.hand_back(held)
        elif held.execution is not None and held.execution.due_timers(self._clock.now()):
            # A timer that was set just now is due already: the run does not wait, and keeps its place.
            self.resume(held)
        else:
            self._wait(held)

    def _wait(self, held: Held) -> None:
        """Nothing is under way. A short wait stays here, a long one is parked; the row says so either way."""
        if held.is_takeover and held.crashes:
            # The run was found only waiting after a takeover: the crash was not its doing.
            held.is_takeover = False
            held.crashes -= 1
        self.acquit(held)
        self.set_busy(held, False)
        change = self.row_at_rest(held, crashes=held.crashes)
        if change.release or not held.is_row_waiting or held.row_due != change.due_at:
            self.write_row(held, change)
        if not change.release:
            self._set_alarm(held, change.due_at)

    def _row_written(self, held: Held, write: RowWrite, verdict: Verdict) -> None:
        change = write.change
        held.is_committing = False
        if held.is_lost:
            return
        if verdict is not True:
            # The row can say that a run is blocked whatever the error was. If even that write fails, the run is let go.
            self._not_committed(held, verdict if change.blocked is None else False)
            return
        self.row_says(held, change)
        if change.release:
            self.park(held)
        elif held.is_pausing:
            # It was paused meanwhile.
            self.pause(held)
        elif held.arrivals or (held.is_row_waiting and held.alarm is None):
            self.wake(held)
        else:
            # The alarm may have rung during the write, when the run could not go on.
            self._set_alarm(held, self.wake_at(held))

    def _set_alarm(self, held: Held, when: Instant | None) -> None:
        if when is None or (held.alarm_at is not None and held.alarm_at <= when):
            return
        if self.is_stopping:
            # Due steps don't begin any more: an alarm for them would ring again and again.
            return
        if held.alarm is not None:
            held.alarm.cancel()
        held.alarm_at = when
        held.alarm = self._clock.call_at(when, partial(self._ring, held))

    def _ring(self, held: Held) -> None:
        held.alarm = held.alarm_at = None
        if held.is_lost or held.is_committing or held.is_parked:
            return
        deadline = None if held.is_deadline_told else held.info.deadline_instant
        if held.is_pausing and (deadline is None or deadline > self._clock.now()):
            # Timers wait until the run is resumed, the deadline does not.
            self._set_alarm(held, deadline)
            return
        self.wake(held)

    def wake(self, held: Held, *, heard_at: Instant = 0) -> None:
        """Something is due or has come: go on, or stand in line while the worker is busy with other runs."""
        if held.is_busy or (self.busy + self.reserved < self._concurrency and not self.line):
            self.resume(held, heard_at=heard_at)
        else:
            self.line[held.id] = held
            if heard_at:
                self._heard_at[held.id] = heard_at

    def next_in_line(self) -> None:
        """There is room again."""
        while self.line and self.busy + self.reserved < self._concurrency:
            held = self.line.pop(next(iter(self.line)))
            heard_at = self._heard_at.pop(held.id, 0)
            if not held.is_lost and not held.is_committing and not held.is_parked and held.id in self.held:
                self.resume(held, heard_at=heard_at)

    def hand_back(self, held: Held) -> None:
        """Give a run back at once. A step in flight is cancelled and will execute again elsewhere."""
        # The store counts messages that came with the claim as delivered, so only a due run is looked at again.
        due_at = self._clock.now() if held.is_busy or held.arrivals else self.due_elsewhere(held)
        self.cancel_attempts(held)
        change = self.waiting(due_at, crashes=held.crashes, release=True)
        self.write_row(held, change)

    def _not_committed(self, held: Held, verdict: Verdict) -> None:
        if isinstance(verdict, StoreError):
            self.block(held, verdict)
            return
        if not self._taken_over:
            # Runs that are refused together get one log line, at the end of this turn of the loop.
            asyncio.get_running_loop().call_soon(self._tell_taken_over)
        self._taken_over.append(held.info)
        held.is_taken_over = True
        self.drop(held)

    def _tell_taken_over(self) -> None:
        lost, self._taken_over = self._taken_over, []
        self.strayed()
        if len(lost) == 1:
            _log.warning("%r was taken over by another worker, or ended by force; this one drops it", lost[0])
            return
        first = ", ".join(run.id for run in lost[:_NAMED])
        more = ", ..." if len(lost) > _NAMED else ""
        what = "were taken over by other workers, or ended by force; this one drops them"
        _log.warning("%d runs %s: %s%s", len(lost), what, first, more)

    def undone(self, held: Held, undone: Undone, pause: int) -> None:
        """The turn of a transactional step did not happen, and nobody took the run over: it begins anew after a pause.

        Its body has seen a result that was never recorded, so the body is thrown away, as after a refused turn.
        """
        held.sent = None
        held.is_committing = False
        held.taking = ()
        if held.is_lost:
            return
        _log.warning("a transactional step of %r was rolled back and executes again: %s", held.info, undone.why)
        self.cancel_attempts(held)
        self.discard(held)
        held.arrivals = ()
        # The takeover that fences the turn out counts a crash, but this worker has not died.
        crashes = held.crashes if undone.is_certain else held.crashes - 1
        change = self.waiting(self._clock.now() + pause, crashes=crashes, release=True)
        self.write_row(held, change, is_fenced=undone.is_certain)

    def block(self, held: Held, error: Exception, taken: Sequence[Arrival] = ()) -> None:
        """Leave the run intact, say why it does not move, and try it again later.

        `taken` holds the arrivals that the body got when it stopped. Of these and of later arrivals, results are
        recorded. Messages are still in the inbox, timers fire again, and the body's asks follow from its inputs anew.
        """
        # If the run was not blocked when it was claimed, it has got on since its last block here: count from one again.
        before = self._block_counts.pop(held.id, 0) if held.blocked is not None else 0
        count = self._block_counts[held.id] = before + 1
        if len(self._block_counts) > REMEMBERED:
            del self._block_counts[next(iter(self._block_counts))]
        pause = min(5_000_000 * 2 ** min(count - 1, 7), 600_000_000)
        reason = f"{type(error).__name__}: {message_of(error)}"
        if count == 1:
            _log.error("%r is blocked: %s", held.info, reason)
        self.cancel_attempts(held)
        self.discard(held)
        arrivals, held.arrivals = [*taken, *held.arrivals], ()
        results = _results(arrivals)
        change = self.waiting(
            self._clock.now() + pause,
            crashes=0 if results else held.crashes,  # Being blocked is no progress; a step that ended is.
            blocked=self._codec.sealed_text(reason),
            release=True,
        )
        self._keep(held, results, change)

    def pause(self, held: Held) -> None:
        """Give a paused run back when none of its steps is in flight. Resuming it delivers their results."""
        held.is_pausing = True
        if held.attempts or held.is_committing or held.is_lost:
            if held.inside is not None:
                self._keep_inside(held)
            return
        arrivals, held.arrivals = held.arrivals, ()
        # Steps that have yet to begin do so on resume, which finds only runs that are due.
        is_due = arrivals or held.held_up or any(command.retry_at is None for command in open_commands(held))
        due_at = self._clock.now() if is_due else self.due_elsewhere(held)
        self.discard(held)
        self._keep(held, _results(arrivals), self.waiting(due_at, crashes=held.crashes, release=True))

    def _keep(self, held: Held, results: Sequence[Entry], change: RowChange) -> None:
        """Release a run. Results that its body has not got are recorded behind a `blocked` entry."""
        if results:
            entries = [*held.unwritten, Blocked(held.last_at, len(results)), *results]
            self.write_turn(held, entries, change, (), self._results_kept)
        else:
            self.write_row(held, change)

    def _keep_inside(self, held: Held) -> None:
        """Record a transactional step's result now: its transaction can't wait for other steps in flight."""
        results = [entry for entry in _results(held.arrivals) if held.has_inside([entry])]
        entries = [*held.unwritten, Blocked(held.last_at, len(results)), *results]
        self.write_turn(held, entries, None, (), partial(self._inside_kept, entries))

    def _inside_kept(self, entries: Sequence[Entry], held: Held, turn: Turn, verdict: Verdict) -> None:
        if not self._is_kept(held, verdict):
            return
        held.unwritten = ()
        held.crashes = 0
        if held.journal is not None:
            held.journal += entries
        held.arrivals = [
            msgspec.structs.replace(one, is_recorded=True) if one.entry is entries[-1] else one for one in held.arrivals
        ]
        if held.is_pausing:
            self.pause(held)
        else:
            self.wake(held)

    def _results_kept(self, held: Held, turn: Turn, verdict: Verdict) -> None:
        if not self._is_kept(held, verdict):
            return
        if turn.change is not None:
            self.row_says(held, turn.change)
        self.park(held)

    def _is_kept(self, held: Held, verdict: Verdict) -> bool:
        held.is_committing = False
        if held.is_lost:
            return False
        if verdict is not True:
            self._not_committed(held, verdict)
            return False
        held.seq += 1
        return True


def open_commands(held: Held) -> list[Command]:
    """The steps that were asked for and have not ended."""
    return [] if held.execution is None else list(held.execution.commands.values())


def check_details(held: Held, codec: Codec) -> None:
    """Raise NotDecodable if the heartbeat details of an open step can't be read.

    Otherwise that is found out when its next attempt begins, perhaps by an alarm, where nobody could block the run.
    """
    for command in open_commands(held):
        if command.details is not None:
            codec.value(Any).decode(command.details)


def _results(arrivals: Sequence[Arrival]) -> list[Entry]:
    """The outcomes of steps that the journal does not hold yet."""
    return [
        one.entry
        for one in arrivals
        if one.rank == RESULT and not one.is_recorded and not isinstance(one.entry, Message)
    ]
