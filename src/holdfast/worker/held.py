"""A run that a worker holds: what is in memory about it, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import msgspec

from holdfast.define import RunInfo, Workflow
from holdfast.engine import Advance, Execution
from holdfast.model import (
    MESSAGES,
    Cancel,
    ClaimedRun,
    Entry,
    History,
    HookResumed,
    Input,
    Instant,
    Message,
    StepCompleted,
    StepFailed,
)

from .clock import Alarm

MESSAGE, RESULT, TIMER = 0, 1, 2
"""The order of inputs of the same time: a message sent before a timeout wins, however late the run wakes."""


NO_KEYS: frozenset[str] = frozenset()
_WARN_LENGTH = 10_000
_PORTION = 16 * 1024 * 1024
"""The most bytes of values that a turn takes in, unless a single value has more: no store has rows of a gigabyte."""
_NO_TAGS: Mapping[str, str] = MappingProxyType({})
_order = attrgetter("when", "rank")


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """An input that has arrived and has not been taken in yet."""

    when: Instant
    """When it was sent, completed or due: inputs found together are ordered by it."""
    rank: int
    entry: Input | Message
    message_id: int | None = None
    is_recorded: bool = False
    """The journal has it already, but the body has yet to get it."""

    @property
    def is_in_inbox(self) -> bool:
        """Whether it is a message that no turn has taken yet."""
        return self.message_id is not None and not self.is_recorded


class Held:
    """One run between its claim and its end, park or loss.

    `seq` is the next row to write. `is_committing` is True while a write of the run is under way; what arrives
    meanwhile waits in `arrivals`. `unwritten` holds the entries of the first turn, which follow from the start alone
    and are written with the next turn. `attempts` are the steps in flight, by key.
    """

    __slots__ = (
        "alarm", "alarm_at", "arrivals", "attempts", "blocked", "crashes", "created_at", "epoch", "execution",
        "held_up", "history", "id", "info", "input", "inside", "is_busy", "is_committing", "is_deadline_told",
        "is_lost", "is_parked", "is_pausing", "is_row_waiting", "is_taken_over", "is_takeover", "is_unsure",
        "journal", "last_at", "row_due", "seed", "sent", "seq", "started_at", "taking", "unwritten", "warn_at",
        "workflow",
    )  # fmt: skip  # a name a line would be a page

    def __init__(self, claimed: ClaimedRun, workflow: Workflow[Any, Any]) -> None:
        self.id = claimed.id
        self.workflow = workflow
        self.input = claimed.input
        self.seed = claimed.seed
        self.created_at = claimed.created_at
        self.started_at = claimed.started_at
        self.info = RunInfo(
            # Texts that many runs share are kept once: a worker may remember very many runs.
            id=claimed.id,
            workflow=workflow.name,
            version=workflow.version,
            key=claimed.key,
            tags=claimed.tags or _NO_TAGS,
            priority=claimed.priority,
            chain_id=claimed.id if claimed.chain_id == claimed.id else claimed.chain_id,
            origin_id=claimed.id if claimed.origin_id == claimed.id else claimed.origin_id,
            parent_id=claimed.parent_id,
            created_at=claimed.created_at,
            started_at=claimed.started_at,
            deadline_at=claimed.deadline_at,
        )
        self.info.caller_trace = claimed.trace
        if claimed.queue != workflow.queue:
            self.info.own_queue = claimed.queue
        self.execution: Execution | None = None
        self.history: History | None = None
        """Set only while the run waits to be tried again as a whole; then there is no execution."""
        self.journal: list[Entry] | None = None
        """All entries, if every turn is to be replayed; else None."""
        self.arrivals: list[Arrival] | tuple[()] = ()
        self.attempts: dict[str, Any] = {}
        self.unwritten: Sequence[Entry] = ()
        self.sent: Advance | None = None
        """The advance of the uncommitted turn."""
        self.warn_at = _WARN_LENGTH
        """The journal's length at which to warn, once."""
        self.is_committing = False
        self.is_lost = False
        self.is_taken_over = False
        """It was lost to another worker, and not dropped because it ended."""
        self.is_deadline_told = False
        self.is_unsure = False
        """Its body was rebuilt, and does not go on before its waits were compared with those in the store."""
        self.alarm: Alarm | None = None
        self.alarm_at: Instant | None = None
        self.inside: Any = None
        """The attempt of a transactional step whose result is being taken in: its transaction writes the turn."""
        self.hold(claimed)

    def hold(self, claimed: ClaimedRun) -> None:
        """Take over what a claim brings, also if the body is still in memory."""
        self.epoch = claimed.epoch
        self.seq = claimed.next_seq
        self.crashes = claimed.crashes
        self.blocked = claimed.blocked
        self.last_at: Instant = claimed.claimed_at
        self.is_takeover = claimed.is_takeover
        """It was taken over from a worker that died, and nothing of it has begun since."""
        self.is_parked = False
        self.is_pausing = False
        """It was paused: no further turn is taken, and it goes back when its steps in flight have ended."""
        self.is_busy = False
        self.is_row_waiting = False
        self.row_due: Instant | None = None
        self.held_up = NO_KEYS
        """The keys of steps that are due and wait for the lease to hold again."""
        self.taking: tuple[int, ...] = ()
        """The ids of messages in the uncommitted turn: they are still in the inbox, and must not be taken again."""

    def arrive(self, arrival: Arrival) -> None:
        """Add an arrival. Most of the time a run has none, and then there is no list."""
        if self.arrivals:
            self.arrivals.append(arrival)
        else:
            self.arrivals = [arrival]

    def unread(self) -> set[int]:
        """Ids of messages that are here and still in the inbox: on their way to the body, or waiting until it asks for
        them."""
        found = {*self.taking, *(one.message_id for one in self.arrivals if one.message_id is not None)}
        if self.execution is not None:
            found.update(message.id for message in self.execution.mail())
        return found

    def portion(self, arrivals: list[Arrival]) -> list[Arrival]:
        """As many arrivals as one row can hold. The others wait for the next turn, which makes no difference to the
        body."""
        size = 0
        for place, arrival in enumerate(arrivals):
            size += _size(arrival.entry)
            if size > _PORTION and place:
                if self.inside is not None or any(one.is_recorded for one in arrivals):
                    # A transaction waits for this turn, and recorded arrivals must reach the body in one turn.
                    return arrivals
                # Timers are left out: they are still due, and are found again.
                self.arrivals = [one for one in arrivals[place:] if one.rank != TIMER]
                return arrivals[:place]
        return arrivals

    def takes_in(self, now: Instant) -> None:
        """Stamp nothing earlier than now, however long it has stood in line: the body measures time from here."""
        self.last_at = max(self.last_at, now)

    def carry(self, history: History, now: Instant) -> None:
        """Let everything arrive again that is in the journal but not in the body, in the order in which it came."""
        found: list[Arrival] = []
        for number, entry in enumerate(history.carried, 1):
            if isinstance(entry, MESSAGES):
                # It has no row in the inbox any more, so it gets an id that no row has.
                sent_at, wait = entry.sent_at or entry.at, entry.wait or None
                hook = entry.hook if isinstance(entry, HookResumed) else 0
                message = Message(-number, self.id, entry.kind, entry.name, entry.payload, sent_at, wait, None, hook)
                found.append(Arrival(sent_at, MESSAGE, message, is_recorded=True))
            else:
                # If the clock was set back since, this keeps a timer from firing before it is due.
                again = msgspec.structs.replace(entry, at=max(now, entry.at))
                found.append(Arrival(entry.at, RESULT, again, is_recorded=True))
        if found:
            # In front of what came from the inbox: of messages sent at the same moment, these were taken first.
            self.arrivals = [*found, *self.arrivals]

    def without_inside(self, arrivals: Sequence[Arrival]) -> Sequence[Arrival]:
        """The arrivals without the result that a transaction was to commit: nothing else may record that result."""
        inside, self.inside = self.inside, None
        if inside is None:
            return arrivals
        return [one for one in arrivals if one.rank != RESULT or getattr(one.entry, "key", None) != inside.key]

    def has_inside(self, entries: Sequence[Entry]) -> bool:
        """Whether that result is among the entries. Else it was a failure or is not wanted, and the transaction is
        rolled back."""
        return any(isinstance(entry, StepCompleted) and entry.key == self.inside.key for entry in entries)

    def is_late(self, now: Instant) -> bool:
        """Whether its deadline has passed and its body was not told yet."""
        deadline = self.info.deadline_instant
        return deadline is not None and deadline <= now and not self.is_deadline_told

    @property
    def is_exempt(self) -> bool:
        """Whether its steps clean up, so that the deadline no longer applies to them."""
        return self.is_deadline_told or (self.execution is not None and self.execution.is_cleaning_up)

    @property
    def deadline_of_steps(self) -> Instant | None:
        """When a step that begins now is cancelled because the run's deadline passes; None for never."""
        return None if self.is_exempt else self.info.deadline_instant

    def __repr__(self) -> str:
        return f"<held {self.info!r}, epoch {self.epoch}, seq {self.seq}>"


def in_order(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """By time, then by rank. Of the same time, arrivals that the journal holds come first.

    A cancel comes after all recorded results, even if a clock was set back since, or if it was sent before a result
    that came while the body was blocked: what those steps did may have to be undone. For the same reason a failure
    comes after the results that directly follow it: an input that ends the body drops everything behind it.
    """
    recorded = max((one.when for one in arrivals if one.is_recorded and one.rank == RESULT), default=None)
    if recorded is None:
        return _failures_last(sorted(arrivals, key=_order))

    def order(one: Arrival) -> tuple[Instant, bool, int]:
        # A cancel at a negative time is a deadline that comes before the start.
        is_behind = isinstance(one.entry, Cancel) and one.when >= 0
        return max(one.when, recorded) if is_behind else one.when, not one.is_recorded, one.rank

    return _failures_last(sorted(arrivals, key=order))


def _failures_last(arrivals: list[Arrival]) -> list[Arrival]:
    """Failures behind the other results among adjacent ends of steps. None moves past a message or a timer."""
    if not any(one.entry.__class__ is StepFailed for one in arrivals):
        return arrivals
    parts = groupby(arrivals, key=lambda one: isinstance(one.entry, (StepCompleted, StepFailed)))
    return [one for _, part in parts for one in sorted(part, key=lambda one: one.entry.__class__ is StepFailed)]


def _size(entry: Input | Message) -> int:
    """The size of the value that came with an input."""
    if isinstance(entry, StepCompleted):
        return len(entry.result)
    if isinstance(entry, Message):
        return len(entry.payload)
    return len(entry.error) if isinstance(entry, StepFailed) else 0
