"""How a worker takes claimed runs on: rebuilt from the journal or found in memory, and suspects one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from holdfast.engine import Advance
from holdfast.errors import DeadlineExceeded, NotDecodable, RunCrashed
from holdfast.model import (
    Cancel,
    ClaimedRun,
    Ended,
    Entry,
    Instant,
    JournalRow,
    Message,
    RowChange,
    RunStatus,
    Stopped,
    Undoing,
    decode_entries,
    history_of,
)

from .held import RESULT, Held
from .turns import Turns

_TRIAL = 1_000_000
"""After a worker has died with a run, no suspect is claimed for so long, so that the run executes without one beside
it."""
_SUSPECT_FROM = 2
"""One crash says nothing about a run: it hits whatever its worker had in flight. The second makes it a suspect."""


class Admission(Turns):
    """Takes claimed runs on. From then on their turns follow from what arrives."""

    __slots__ = ()

    def admit(self, claimed: Sequence[ClaimedRun]) -> None:
        """Rebuild the bodies that are not in memory, and let the runs go on."""
        # First this for all of them, then that for all: code that has just executed is still in the processor's caches.
        for held, run in [(self._hold(run), run) for run in claimed]:
            try:
                self._let_in(held, run)
            except Exception as error:
                # Whatever failed, the run must not stay held without anybody working on it.
                self.block(held, error)

    @property
    def may_suspect(self) -> bool:
        """Whether a suspect may be claimed: a run that may be what takes workers down.

        Suspects are executed one at a time, to find the guilty one. A run that a worker has just died with may be
        guilty, too: a suspect beside it would be blamed for it.
        """
        return self._suspect is None and self._clock.now() >= self._trial_ends_at

    def give_back(self, claimed: ClaimedRun) -> None:
        """Hand back a run that was claimed for the first time, as if it had not been claimed: it is due when it was."""
        self._put_back(self._hold(claimed), claimed)

    def _put_back(self, held: Held, claimed: ClaimedRun) -> None:
        held.arrivals = ()
        self.discard(held)
        self.write_row(held, RowChange(status=RunStatus.PENDING, due_at=claimed.due_at, release=True))

    def _hold(self, claimed: ClaimedRun) -> Held:
        before = self.held.get(claimed.id)
        if before is not None:
            # The run was given back, and claimed again before that was answered. The answer means nothing any more.
            self.drop(before)
        held = self.parked.pop(claimed.id, None)
        if held is not None and held.seq != claimed.next_seq:
            self.discard(held)
            held = None
        if held is None:
            held = Held(claimed, self._workflows[claimed.workflow, claimed.version])
        else:
            held.hold(claimed)
        self.held[claimed.id] = held
        return held

    def _let_in(self, held: Held, claimed: ClaimedRun) -> None:
        if claimed.crashes > held.workflow.max_crashes:
            # The body itself may be what kills workers, so it is not even rebuilt.
            self._stop_crashing(held, has_undone=_has_undone(claimed.rows))
            return
        if held.execution is None and claimed.next_seq and not claimed.rows:
            # The body was in memory when the claim was sent, so the claim brought no journal; since then it was
            # discarded to make room. Without a journal the run would begin anew: the next claim brings it.
            due_at = max(self._clock.now(), held.last_at)
            self.write_row(held, self.waiting(due_at, crashes=held.crashes, release=True))
            return
        if claimed.crashes >= _SUSPECT_FROM:
            self._suspect = held
        elif claimed.crashes:
            self._try_out()
        self.set_busy(held, True)
        if held.execution is None and not self._rebuild(held, claimed):
            return
        if _never_began(held):
            self._stop_late(held)
            return
        cancel = next((message for message in claimed.inbox if message.kind == "cancel"), None)
        if cancel is not None and _is_unbegun(held, claimed):
            self._stop_unbegun(held, cancel.payload.decode() or None)
            return
        self._get(held, claimed.inbox)
        is_late = held.is_late(max(self._clock.now(), claimed.claimed_at))
        if claimed.is_paused and not is_late and not any(message.kind == "cancel" for message in claimed.inbox):
            # The run was paused while it was being claimed or stood ahead: whoever paused it could not tell its new
            # owner.
            if claimed.is_first:
                self._put_back(held, claimed)
            else:
                self.pause(held)
            return
        if claimed.is_paused:
            self._end_pause(held)
        # A claim brings the whole inbox. But it lacks events published while no worker was there to match them.
        is_heard = held.execution is None or not held.execution.awaits_event
        heard_at = claimed.claimed_at if is_heard else 0
        if held.is_unsure and self.compare is not None:
            self.compare(held, partial(self._compared, held, heard_at, claimed.is_paused))
        else:
            self.resume(held, heard_at=heard_at, was_paused=claimed.is_paused)

    def _compared(self, held: Held, heard_at: Instant, was_paused: bool) -> None:
        try:
            self.resume(held, heard_at=heard_at, was_paused=was_paused)
        except Exception as error:
            # As in `admit`.
            self.block(held, error)

    def _get(self, held: Held, inbox: Sequence[Message]) -> None:
        """Let the messages of a claim arrive, except those that the body in memory has: a claim brings them all."""
        if inbox:
            self._mailed.add(held.id)
            known = held.unread()
            for message in inbox:
                if message.id not in known:
                    self.arrive(held, message)

    def _end_pause(self, held: Held) -> None:
        """Order the cancel or the deadline that ends a pause before everything that has waited, except results of
        steps.

        Those are recorded, and may have to be undone. No timer comes before a cancel that was sent at 0.
        """
        now = self._clock.now()
        if held.is_late(now):
            self._meet_deadline(held, now, held.info.deadline_instant or 0)
        behind = 1 + max((one.when for one in held.arrivals if one.rank == RESULT), default=0)
        held.arrivals = [
            msgspec.structs.replace(one, when=behind, entry=msgspec.structs.replace(one.entry, at=0))
            if isinstance(one.entry, Cancel)
            else one
            for one in held.arrivals
        ]

    def _try_out(self) -> None:
        """Claim no suspect for a while. When that is over, a look is made that may find suspects."""
        self._trial_ends_at = self._clock.now() + _TRIAL
        self._clock.call_at(self._trial_ends_at, self.cleared)

    def _rebuild(self, held: Held, claimed: ClaimedRun) -> bool:
        entries: list[Entry] = []
        try:
            for row in claimed.rows:
                entries += decode_entries(row.data)
                held.last_at = max(held.last_at, row.at)
        except msgspec.MsgspecError as error:
            self.block(held, NotDecodable(f"the journal of {held.info!r} can't be read: {error}"))
            return False
        if self._replay_each_turn:
            held.journal = entries
        history = history_of(entries)
        if history.retrying is not None:
            held.history = history
            return True
        if not self.replay(held, history):
            return False
        held.carry(history, self._clock.now())
        held.is_unsure = held.execution is not None and held.execution.is_listening and bool(held.execution.life.waits)
        return True

    def _is_stopped(self, held: Held) -> bool:
        # A run is stopped only before a step that is due: one that is found waiting is innocent, and to see that its
        # body is needed.
        if held.crashes < held.workflow.max_crashes or self.is_lenient or not self._has_due_steps(held):
            return False
        self._stop_crashing(held, has_undone=held.execution is not None and held.execution.has_undone)
        return True

    def _stop_crashing(self, held: Held, *, has_undone: bool) -> None:
        advice = "then retry the run"
        if has_undone:
            advice = "and undo by hand what it has not undone yet, as its journal shows; it can't be retried any more"
        error = RunCrashed(
            f"{held.info!r} was claimed {held.crashes} times by workers that died before it got on; its max_crashes is "
            f"{held.workflow.max_crashes}, so it was stopped; find out what its open step does to the process, {advice}"
        )
        ended = Ended(self._clock.now(), RunStatus.FAILED, None, self._codec.encode_exception(error))
        self.commit(held, Advance([ended], [], [], ended), ())

    def _stop_late(self, held: Held) -> None:
        """The run waited for its delay, for another run or for a worker until its deadline passed: its body never
        begins."""
        error = DeadlineExceeded(
            f"{held.info!r} had not begun when its deadline, {held.info.deadline}, passed; start it with a later "
            "deadline or a shorter delay"
        )
        ended = Ended(self._clock.now(), RunStatus.FAILED, None, self._codec.encode_exception(error))
        self.commit(held, Advance([ended], [], [], ended), ())

    def _stop_unbegun(self, held: Held, reason: str | None) -> None:
        """End a child that its parent has called off before it began, as a client's cancel does in the store."""
        ended = Stopped(self._clock.now(), RunStatus.CANCELLED.value, None, None, reason)
        self.commit(held, Advance([ended], [], [], ended), ())

    def hand_back_all(self) -> None:
        """Give back every run that has no write under way."""
        for held in list(self.held.values()):
            # A transaction that keeps the run's turns waiting ends with its attempt, so such a run is given back, too.
            # But a result that waits for a look into the inbox is taken in first, or its step would execute again.
            is_free = not held.is_committing and all(one.rank != RESULT for one in held.arrivals)
            if is_free or any(attempt.is_holding for attempt in held.attempts.values()):
                self.hand_back(held)


def _has_undone(rows: Sequence[JournalRow]) -> bool:
    """Whether a journal says that something was undone."""
    try:
        return any(isinstance(entry, Undoing) for row in rows for entry in decode_entries(row.data))
    except msgspec.MsgspecError:
        return False


def _never_began(held: Held) -> bool:
    """Whether the first claim came after the deadline, so that nothing of the run can have begun."""
    deadline = held.info.deadline_instant
    if deadline is None or held.started_at < deadline:
        return False
    if held.history is not None or held.execution is None or held.execution.main is not None:
        return False
    # Compensations that an earlier run of the chain has left run after the body, so that body begins and gets the
    # deadline.
    return not held.execution.has_to_undo


def _is_unbegun(held: Held, claimed: ClaimedRun) -> bool:
    """Whether nothing of the run can have begun: it has to wait, or it has no journal and was never claimed before."""
    if not claimed.has_to_wait and (claimed.next_seq or not claimed.is_first):
        return False
    return held.execution is not None and held.execution.main is None and not held.execution.has_to_undo
