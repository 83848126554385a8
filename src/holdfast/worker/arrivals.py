"""What arrives for a run that this worker holds: messages, the ends of its steps, heartbeats, the end of its body."""

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
    """Arrivals wait in the run until its next turn; what comes while one is being committed waits for the one after."""

    __slots__ = ()

    @abstractmethod
    def _take(self, held: Held) -> None:
        """Advance the body by everything that has arrived, and commit what came of it."""

    def deliver(self, messages: Sequence[Message], heard: Mapping[str, Held] = _NOBODY, heard_at: Instant = 0) -> bool:
        """Hand out fresh inbox rows, all there were. None of the runs goes on before it has all of its own.

        Returns whether any was new: one that no wait has taken yet stays in the inbox, and comes again.

        The runs in `heard` waited for this look, whether anything has come for them or not; it was made at `heard_at`.
        """
        known: dict[str, set[int]] = {}
        woken = [held for held in (self._receive(message, known) for message in messages) if held is not None]
        for held in dict.fromkeys((*heard.values(), *woken)):
            is_free = not held.is_committing and not held.is_pausing and not held.is_parked
            if is_free and self.held.get(held.id) is held:
                self.wake(held, heard_at=heard_at if held.id in heard else 0)
        return bool(woken)

    def unread(self) -> list[int]:
        """Messages that are here and in the inbox still: there may be many, and they need not be read again."""
        found: list[int] = []
        for run_id in [*self._mailed]:
            held = self.held.get(run_id)
            ids = set() if held is None else held.unread()
            found += ids
            if not ids:
                self._mailed.remove(run_id)
        return found

    def _receive(self, message: Message, known: dict[str, set[int]]) -> Held | None:
        """A fresh inbox row for a run that this worker holds; the run, if it is to be woken.

        `known` has the messages of each run that are here already, and came again while they were on their way.
        """
        held = self.held.get(message.run_id)
        if held is None or message.id in self._taken:
            # Of the latter: read before the turn that took it was committed, and only heard of now.
            return None
        if held.id not in known:
            known[held.id] = held.unread()
        if message.id in known[held.id]:
            return None
        if message.kind == "pause":
            self._pause_or_not(held, message.payload == b"paused")
        elif held.is_pausing and message.kind == "cancel":
            # It goes back as if its steps had ended, for the claim that the cancel brings about ends the pause, too: a
            # cleanup that waits must not wait for somebody to resume the run.
            self.cancel_attempts(held)
            self.pause(held)
        else:
            self.arrive(held, message)
            return held
        return None

    def took(self, held: Held, verdict: Verdict) -> None:
        """A turn was answered: what it has taken is gone, although an answer may be under way that has it still."""
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
                # They come in the order in which they were sent: a store's clock that was set back must not change
                # that. Not so an event, which comes when it is matched: it may have been published long before.
                when = max(when, last.when)
        held.arrive(Arrival(when, MESSAGE, entry, message.id))

    def step_ended(self, attempt: Attempt, outcome: Outcome) -> None:
        """A step in flight has a result."""
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
        """Whether a timer was due before, of which the alarm comes later: the loop was held up, or nobody sets any."""
        if held.execution is None:
            return False
        due_at = held.execution.next_timer()
        if due_at is None or due_at >= when:
            return False
        # Nothing may come between the result of a transactional step and its commit, and so no look into the inbox.
        return held.inside is None or not held.execution.is_listening

    def stopped(self, execution: Execution) -> None:
        """A body was stopped while it waited, by a thread. Told by that thread."""
        with suppress(RuntimeError):  # The loop may be closed by then.
            self._loop.call_soon_threadsafe(self._block_stopped, execution, context=self._context)

    def _block_stopped(self, execution: Execution) -> None:
        held = self.held.get(execution.run.own_id)
        if held is None or held.execution is not execution or execution.fault is None:
            # It was blocked already, is put away, or parked: whoever wakes it finds out.
            return
        if held.is_committing:
            self._clock.call_at(self._clock.now() + _MOMENT, partial(self._block_stopped, execution))
        elif not held.attempts:
            # If there were any, the next turn would find out: to cancel them is to have them execute again and again.
            self.block(held, execution.fault)

    def beat(self, held: Held) -> None:
        """A heartbeat is progress: the run is no longer suspected."""
        if held.crashes and not held.is_lost and not held.is_committing:
            held.crashes = 0
            self.acquit(held)
            change = RowChange(status=RunStatus.RUNNING)
            self.write_row(held, change)


def _is_event(entry: Input | Message) -> bool:
    return isinstance(entry, Message) and entry.kind == "event"
