"""What arrives for a run that this worker holds: messages, ends of steps, heartbeats, the stop of its body."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType

from holdfast.engine import Execution
from holdfast.model import Cancel, Input, Instant, Message, RowChange, RunStatus

from .attempt import Attempt
from .attempts import Outcome
from .commits import Verdict
from .held import MESSAGE, RESULT, Arrival, Held
from .waits import REMEMBERED, Waits

_MOMENT = 20_000
_NOBODY: Mapping[str, Held] = MappingProxyType({})


class Arrivals(Waits):
    """Arrivals wait in the run until its next turn. What comes while a turn is being committed waits for the one after
    it."""

    __slots__ = ()

    @abstractmethod
    def _take(self, held: Held) -> None:
        """Advance the body by everything that has arrived, and commit the turn."""

    def deliver(self, messages: Sequence[Message], heard: Mapping[str, Held] = _NOBODY, heard_at: Instant = 0) -> bool:
        """Hand out fresh inbox rows. No run goes on before it has got all of its own.

        Returns whether any message was new: a message that no wait has taken yet stays in the inbox, and is read again.

        The runs in `heard` waited for this look into the inbox, which was made at `heard_at`. They go on even if
        nothing came.
        """
        known: dict[str, set[int]] = {}
        woken = [held for held in (self._receive(message, known) for message in messages) if held is not None]
        for held in dict.fromkeys((*heard.values(), *woken)):
            is_free = not (held.is_committing or held.is_pausing or held.is_parked or held.is_unsure)
            if is_free and self.held.get(held.id) is held:
                self.wake(held, heard_at=heard_at if held.id in heard else 0)
        return bool(woken)

    def unread(self) -> list[int]:
        """Ids of messages that are here and still in the inbox. There may be many, and they need not be read again."""
        found: list[int] = []
        for run_id in [*self._mailed]:
            held = self.held.get(run_id)
            ids = set() if held is None else held.unread()
            found += ids
            if not ids:
                self._mailed.remove(run_id)
        return found

    def _receive(self, message: Message, known: dict[str, set[int]]) -> Held | None:
        """Give a fresh inbox row to its run. Returns the run if it is to be woken.

        `known` caches the ids of the messages that each run has already, for they may be read again.
        """
        held = self.held.get(message.run_id)
        if held is None or message.id in self._taken:
            # A message is in `_taken` if it was read before the turn that took it was committed, and arrives only now.
            return None
        if held.id not in known:
            known[held.id] = held.unread()
        if message.id in known[held.id]:
            return None
        if message.kind == "pause":
            self._pause_or_not(held, message.payload == b"paused")
        elif held.is_pausing and message.kind == "cancel":
            # Give the run back as if its steps had ended. The cancel makes it due, and that claim ends the pause: a
            # cleanup must not wait until somebody resumes the run.
            self.cancel_attempts(held)
            self.pause(held)
        else:
            self.arrive(held, message)
            return held
        return None

    def took(self, held: Held, verdict: Verdict) -> None:
        """A turn was answered. The messages that it took are deleted, but an answer with them may still be on its way
        here."""
        if held.taking and verdict is True:
            self._taken.update(dict.fromkeys(held.taking))
            while len(self._taken) > REMEMBERED:
                self._taken.popitem(last=False)
        held.taking = ()

    def _pause_or_not(self, held: Held, is_paused: bool) -> None:
        if is_paused:
            self.pause(held)
        elif held.is_pausing:
            held.is_pausing = False
            if not held.is_committing:
                self.wake(held)

    def arrive(self, held: Held, message: Message) -> None:
        self._mailed.add(held.id)
        entry: Input | Message = message
        if message.kind == "cancel":
            entry = Cancel(message.sent_at, message.payload.decode() or None)
        when = message.sent_at
        if not _is_event(entry):
            last = next((one for one in reversed(held.arrivals) if not _is_event(one.entry)), None)
            if last is not None and last.message_id is not None:
                # Messages keep the order in which they were sent, even if the store's clock was set back. Events don't:
                # they come when they are matched, perhaps long after they were published.
                when = max(when, last.when)
        held.arrive(Arrival(when, MESSAGE, entry, message.id))

    def step_ended(self, attempt: Attempt, outcome: Outcome) -> None:
        """An attempt has come to an outcome."""
        held = attempt.held
        if held.is_lost or held.attempts.get(attempt.key) is not attempt:
            return
        del held.attempts[attempt.key]
        held.arrive(Arrival(outcome.at, RESULT, outcome))
        if held.is_pausing:
            self.pause(held)
        elif held.is_committing:
            return
        elif self._has_timer_before(held, outcome.at):
            self.resume(held)
        else:
            self._take(held)

    def _has_timer_before(self, held: Held, when: Instant) -> bool:
        """Whether a timer was due before `when` and its alarm has not rung yet: the loop was held up, or no alarm is
        set."""
        if held.execution is None:
            return False
        due_at = held.execution.next_timer()
        if due_at is None or due_at >= when:
            return False
        # Between the result of a transactional step and its commit there must be no pause, so no look into the inbox.
        return held.inside is None or not held.execution.is_listening

    def stopped(self, execution: Execution) -> None:
        """A thread has stopped a body that waited. That thread calls this."""
        with suppress(RuntimeError):  # The loop may be closed by then.
            self._loop.call_soon_threadsafe(self._block_stopped, execution, context=self._context)

    def _block_stopped(self, execution: Execution) -> None:
        held = self.held.get(execution.run.own_id)
        if held is None or held.execution is not execution or execution.fault is None:
            # The run was blocked already, put away or parked: whoever wakes it finds the fault.
            return
        if held.is_committing:
            self._clock.call_at(self._clock.now() + _MOMENT, partial(self._block_stopped, execution))
        elif not held.attempts:
            # With attempts in flight the next turn finds the fault. Cancelling them here would make them execute again
            # and again.
            self.block(held, execution.fault)

    def beat(self, held: Held) -> None:
        """A heartbeat is progress: the run is no longer a suspect."""
        if held.crashes and not held.is_lost and not held.is_committing:
            held.crashes = 0
            self.acquit(held)
            change = RowChange(status=RunStatus.RUNNING)
            self.write_row(held, change)


def _is_event(entry: Input | Message) -> bool:
    return isinstance(entry, Message) and entry.kind == "event"
