"""Taking turns: inputs in, advance, commit, and only then effects.

Crash windows, in the order of a turn:

- before the commit: nothing of the turn has happened; the same inputs come again (a step in flight executes again);
- after the commit, before the effects: whoever claims the run finds the asks in its journal and begins them;
- during an effect: the step executes again, and one result is recorded;
- after an effect, before the turn that takes its result in: the same.

The first turn has no commit of its own: its asks follow from the start, which is durable already.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.codec import Codec
from holdfast.define import Workflow
from holdfast.engine import Advance, Execution, Runners
from holdfast.model import (
    Cancel,
    Entry,
    History,
    Input,
    Instant,
    Message,
    Out,
    RowChange,
    RowWrite,
    RunStatus,
    Started,
    StepAsked,
    TimerFired,
    Turn,
    encode_entries,
    history_of,
)

from .arrivals import Arrivals
from .clock import Clock
from .commits import GroupWriter, Verdict
from .held import MESSAGE, TIMER, Arrival, Held, in_order
from .told import journal_grown, run_failed, run_retrying
from .waits import check_details, open_commands

_UNWRITTEN_AFTER = 1_000_000
_FIRST = -1
"""The time of an arrival that comes before the start, which arrives at 0."""
_STAMPED_LATER = (Started, Cancel)
"""The first claim has stamped a start. A cancel has the time at which it was sent, so that timers which were due before
it come first; the engine stamps it."""


class Turns(Arrivals):
    """The turns of all runs that one worker holds. All of this happens on the worker's loop."""

    __slots__ = ("_codec", "_firsts", "_replay_each_turn", "_runners", "_turns", "_workflows", "advancing")

    def __init__(
        self,
        worker_id: str,
        workflows: Mapping[tuple[str, str], Workflow[Any, Any]],
        codec: Codec,
        clock: Clock,
        turns: GroupWriter[Turn, Held],
        rows: GroupWriter[RowWrite, Held],
        *,
        concurrency: int,
        keep_parked: int,
        replay_each_turn: bool,
        may_begin: Callable[[], bool],
        freed: Callable[[], None],
    ) -> None:
        super().__init__(
            worker_id, clock, rows, concurrency=concurrency, keep_parked=keep_parked, may_begin=may_begin, freed=freed
        )
        self.advancing: tuple[object] | None = None
        """The run whose body is on the loop right now. Another tuple each time: so the pulse can tell for how long."""
        self._workflows = workflows
        self._codec = codec
        self._turns = turns
        self._replay_each_turn = replay_each_turn
        self._runners = Runners(self.stopped)
        self._firsts: deque[tuple[Instant, Held]] = deque()
        """First turns that are not written yet, and when each is to be written, oldest first."""

    def resume(self, held: Held, *, heard_at: Instant = 0, was_paused: bool = False) -> None:
        """Let a run go on: its first turn, arrivals, due timers, open steps. If there is none of these, it waits."""
        now, started_at = self._clock.now(), held.started_at
        is_late = held.is_late(now)
        if held.history is not None and held.history.retrying is not None:
            retry_at = held.history.retrying.retry_at
            is_cancelled = any(isinstance(one.entry, Cancel) for one in held.arrivals)
            if retry_at > now and not is_cancelled and not is_late:
                # Messages don't shorten the pause. They wait with the run or in its inbox.
                self._wait(held)
                return
            # A body that begins again begins at the time of the retry: its next pause counts from there.
            started_at = max(started_at, min(retry_at, now))
            if not self._begin_retry(held):
                return
        execution = held.execution
        assert execution is not None
        if execution.main is None:
            # By the time that the first claim has stored: a crash in the first turn changes nothing that the body sees.
            held.arrive(Arrival(0, MESSAGE, Started(started_at, held.seed)))
            if is_late and held.started_at >= (held.info.deadline_instant or 0):
                # Nothing of the run has begun, and nothing will; see admission.py.
                self._meet_deadline(held, now, when=_FIRST)
        # Timers that came due in a pause come after what ends the pause.
        timers = [] if was_paused or held.is_pausing else execution.due_timers(now)
        if timers and self.listen is not None and execution.is_listening:
            # A timer that was due after the last look needs another look: a message may have been sent before it.
            timers = [timer for timer in timers if timer[0] <= heard_at]
            if not timers:
                return self.listen(held)
        for due_at, number in timers:
            held.arrive(Arrival(due_at, TIMER, TimerFired(now, number)))
        if held.arrivals or execution.is_unwritten or held.is_late(now):
            held.takes_in(now)
            self._take(held)
        else:
            self._settle(held)

    def _meet_deadline(self, held: Held, now: Instant, when: Instant) -> None:
        """Let the deadline arrive, at the time `when`, which orders it among the other arrivals."""
        held.is_deadline_told = True
        held.arrive(Arrival(when, MESSAGE, Cancel(now if when == _FIRST else when, "deadline", True)))

    def _begin_retry(self, held: Held) -> bool:
        history, held.history = held.history, None
        assert history is not None
        if not self.replay(held, history):
            return False
        held.carry(history, self._clock.now())
        return True

    def replay(self, held: Held, history: History) -> bool:
        """Rebuild the body; False if it can't be rebuilt, so that the run is blocked."""
        held.info.begin()
        held.execution = Execution(held.workflow, held.info, held.input, held.seed, self._codec, self._runners)
        self.advancing = (held.info,)
        try:
            if history.called_off:
                held.execution.life.called_off = history.called_off
            held.execution.replay(history.entries, history.lives, history.carried)
            if history.is_cut:
                held.execution.ask_anew(self._clock.now(), history.carried)
            check_details(held, self._codec)
        except Exception as error:
            held.info.former = None
            self.block(held, error)
            return False
        finally:
            self.advancing = None
        if held.info.journal_length >= held.warn_at:
            held.warn_at = sys.maxsize
        cancel = held.execution.cancel
        held.is_deadline_told = cancel is not None and cancel.deadline
        return True

    def close(self) -> None:
        """Called when no body is advanced here any more."""
        self._runners.close()

    def _take(self, held: Held) -> None:
        """Advance the body by what has arrived, or a part of it if that is too much, and commit the turn."""
        execution = held.execution
        if execution is None:
            return self.resume(held)
        if held.info.deadline_instant is not None and held.is_late(now := self._clock.now()):
            # A step may have ended before the alarm could ring: nothing begins after a deadline.
            self._meet_deadline(held, now, held.info.deadline_instant)
        arrivals: Sequence[Arrival] = held.arrivals
        held.arrivals = ()
        if len(arrivals) > 1:
            arrivals = held.portion(in_order(arrivals))
        inputs: list[Input | Message] = []
        has_messages = False
        for arrival in arrivals:
            entry = arrival.entry
            if isinstance(entry, Message):
                held.last_at = max(held.last_at, self._clock.now())
            elif entry.at > held.last_at:
                held.last_at = entry.at
            elif entry.at < held.last_at and entry.__class__ not in _STAMPED_LATER:
                entry = msgspec.structs.replace(entry, at=held.last_at)
            inputs.append(entry)
            has_messages = has_messages or arrival.message_id is not None
        if not held.is_busy:
            self.set_busy(held, True)
        self.advancing = (held.info,)
        try:
            done = execution.advance(inputs, held.last_at)
        except Exception as error:
            self.block(held, error, held.without_inside(arrivals))
            return
        finally:
            self.advancing = None
        if held.inside is not None and not held.has_inside(done.entries):
            arrivals = [*arrivals[: done.consumed], *held.without_inside(arrivals[done.consumed :])]
        if done.consumed < len(arrivals):
            # The body ended before it got to these arrivals, or they belong to the next turn.
            held.arrivals = [*arrivals[done.consumed :], *held.arrivals]
            arrivals = arrivals[: done.consumed]
        taken = done.taken
        if has_messages:
            # `done.taken` says which other messages were taken: the body may leave them in the inbox.
            for arrival in arrivals:
                if arrival.message_id is not None and arrival.entry.__class__ is Cancel:
                    taken += (arrival.message_id,)
        if not taken and _is_first(done):
            held.unwritten = done.entries
            self._effects(held, done)
            if held.attempts:
                self._remember_first(held)
        elif done.entries or taken or done.out is not None:
            self.commit(held, done, taken)
        else:
            self._effects(held, done)

    def _remember_first(self, held: Held) -> None:
        """Write the first turn later if its steps take long, so that the journal shows what the run is doing."""
        when = self._clock.now() + _UNWRITTEN_AFTER
        self._firsts.append((when, held))
        if len(self._firsts) == 1:
            self._clock.call_at(when, self._write_firsts)

    def _write_firsts(self) -> None:
        now = self._clock.now()
        while self._firsts and self._firsts[0][0] <= now:
            _, held = self._firsts.popleft()
            if held.crashes:
                # A written turn would count as progress, and a suspect has yet to show that its step can end.
                continue
            if held.unwritten and not held.is_committing and self.held.get(held.id) is held and held.attempts:
                self.commit(held, Advance([], [], []), ())
        if self._firsts:
            self._clock.call_at(self._firsts[0][0], self._write_firsts)

    def commit(self, held: Held, done: Advance, taken: tuple[int, ...]) -> None:
        """Send the turn on its way. What arrives before it is answered waits for the next turn."""
        entries = [*held.unwritten, *done.entries] if held.unwritten else done.entries
        change = self._change(held, done)
        if held.journal is not None:
            held.journal += entries
        held.sent = done
        self.write_turn(held, entries, change, taken, self._committed, done.out)
        if done.ended is not None and held.inside is None:
            # Nothing of the run begins any more, so its place is free. A transaction needs it to stay busy.
            self.set_busy(held, False)

    def write_turn(
        self,
        held: Held,
        entries: Sequence[Entry],
        change: RowChange | None,
        taken: tuple[int, ...],
        told: Callable[[Held, Turn, Verdict], None],
        out: Out | None = None,
    ) -> None:
        held.is_committing, held.taking = True, taken
        turn = Turn(
            run_id=held.id,
            seq=held.seq,
            epoch=held.epoch,
            at=held.last_at,
            data=encode_entries(entries),
            change=change,
            taken=taken,
            out=out,
            created_at=held.created_at,
        )
        if held.inside is None:
            self._turns.add(turn, told, held, is_alone=self.busy == 1)
        else:
            held.inside.turn = turn, told

    def _change(self, held: Held, done: Advance) -> RowChange | None:
        """The change that the run's row needs after this turn; None, on the hot path, if the row is right already."""
        ended = done.ended
        if ended is not None:
            return RowChange(status=RunStatus(ended.status), output=ended.output, error=ended.error)
        if done.retrying is not None:
            # The next try is rebuilt from the journal, which the next claim brings.
            retry_at, deadline = done.retrying.retry_at, held.info.deadline_instant
            return self.waiting(retry_at if deadline is None else min(retry_at, deadline), release=True)
        if done.begin or held.arrivals or self._has_steps(held, done):
            if held.is_row_waiting or held.crashes or held.blocked:
                return RowChange(status=RunStatus.RUNNING)
            return None
        return self.row_at_rest(held)

    def _has_steps(self, held: Held, done: Advance) -> bool:
        """Whether steps are in flight or about to begin after this turn, so that the run must not be parked."""
        withdrawn = {command.key for command in done.withdrawn}
        if held.attempts and not held.attempts.keys() <= withdrawn:
            return True
        # Steps may be open but not begun: held up by the lease, or found in the journal together with an input.
        return self._has_due_steps(held)

    def _committed(self, held: Held, turn: Turn, verdict: Verdict) -> None:
        done, held.sent = held.sent, None
        assert done is not None
        change = turn.change
        held.is_committing = False
        self.took(held, verdict)
        if held.is_lost:
            return
        if verdict is not True:
            self._not_committed(held, verdict)
            return
        held.seq += 1
        held.unwritten = ()
        held.crashes = 0
        if self._suspect is held:
            self.acquit(held)
        if change is not None or turn.taken:
            self._progress(held, turn, done)
        if done.withdrawn:
            self._withdraw(held, done)
        if held.info.journal_length >= held.warn_at:
            held.warn_at = sys.maxsize
            journal_grown(held)
        if done.ended is not None:
            if done.ended.status == "failed":
                run_failed(held.info, self._codec, done.ended.error)
            self.drop(held)
            return
        if change is not None and change.release:
            if done.retrying is not None:
                run_retrying(held.info, self._codec, done.retrying.error, done.retrying.retry_at - done.retrying.at)
                self.discard(held)
            self.park(held)
            return
        if held.is_pausing:
            # The steps that this turn asked for begin when the run is resumed.
            self.pause(held)
            return
        if held.journal is not None and not self._replay_now(held, done):
            return
        self._effects(held, done)

    def _progress(self, held: Held, turn: Turn, done: Advance) -> None:
        """A turn that changes more than the journal was accepted. If the run was blocked, it no longer is."""
        if turn.change is not None:
            self.row_says(held, turn.change)
            held.blocked = None
            self._block_counts.pop(held.id, None)

    def _withdraw(self, held: Held, done: Advance) -> None:
        for command in done.withdrawn:
            attempt = held.attempts.pop(command.key, None)
            if attempt is not None:
                self.attempts.withdraw(attempt)

    def _replay_now(self, held: Held, done: Advance) -> bool:
        assert held.journal is not None
        begin = {command.key for command in done.begin}
        mail = [] if held.execution is None else held.execution.mail()
        self.discard(held)
        if not self.replay(held, history_of(held.journal)):
            return False
        assert held.execution is not None
        held.execution.keep_mail(mail)
        done.begin = [command for command in open_commands(held) if command.key in begin]
        return True

    def _effects(self, held: Held, done: Advance) -> None:
        if held.crashes and self._is_stopped(held):
            return
        for command in done.begin:
            self._begin(held, command)
        if held.arrivals:
            return self.resume(held)
        if not held.attempts:
            return self._settle(held)
        execution = held.execution
        assert execution is not None
        is_more = len(execution.commands) > len(held.attempts)
        if is_more:
            # Some steps were open before this turn: found in the journal when the body was rebuilt, or waiting for a
            # retry.
            self._begin_open(held)
        if is_more or execution.loop.timers or held.info.deadline_instant is not None:
            # A single step without a timer beside it, the common case, needs no alarm.
            self._set_alarm(held, self.wake_at(held))


def _is_first(done: Advance) -> bool:
    """Whether the turn follows from the start alone. A deadline that has passed by then comes at a time of its own."""
    entries = done.entries
    if not entries or entries[0].__class__ is not Started or done.ended is not None or done.retrying is not None:
        return False
    return done.out is None and all(isinstance(entry, StepAsked) for entry in entries[1:])
