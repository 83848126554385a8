"""Runs as records: how a run is begun, how it looks from outside, and what a worker gets when it claims it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

import msgspec

from holdfast.errors import DefinitionError

from .durations import Instant
from .messages import Message, OutEvent, OutSignal
from .streams import StepItems, StepValue
from .texts import is_text
from .waits import NewWait
from .workflows import Declared

OnConflict = Literal["return", "raise", "replace", "restart", "retry"]
ON_CONFLICT: tuple[OnConflict, ...] = ("return", "raise", "replace", "restart", "retry")
T_co = TypeVar("T_co", covariant=True)


class RunStatus(StrEnum):
    """Where a run is in its life. The last four are final.

    `pending` has not begun. `running` advances or has a step in flight. `waiting` waits for a time, a message, another
    run or, if it is blocked, for other code. `continued` has gone on as another run. Members are text, too: "waiting".
    """

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CONTINUED = "continued"

    @property
    def is_final(self) -> bool:
        """Whether the run has ended: it never changes again."""
        return self in _FINAL


LIVE = (RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING)
ENDED = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.CONTINUED)
_FINAL = frozenset(ENDED)


class NewRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run about to be created. Durations are relative to the store's clock, so that only one clock counts."""

    id: str
    workflow: str
    version: str
    input: bytes
    seed: bytes
    queue: str = "default"
    key: str | None = None
    on_conflict: OnConflict = "return"
    delay: int = 0
    due_at: Instant | None = None
    """An absolute time instead of `delay`."""
    deadline: int | None = None
    deadline_at: Instant | None = None
    """An absolute time instead of `deadline`."""
    priority: int = 0
    tags: Mapping[str, str] = {}
    retention: int | None = None
    """How many microseconds the run is kept after its end; None for ever."""
    has_own_retention: bool = False
    """Whether the start asked for this retention, whatever the workflow declares: a successor keeps it."""
    chain_id: str | None = None
    """The first run of the chain; None: this one."""
    origin_id: str | None = None
    """The run with which its life began, from which its steps' idempotency keys are made; None: the chain's first. A
    retry goes on with the life of the run that it retries, a successor begins one."""
    parent_id: str | None = None
    """The run whose child it is."""
    parent_key: str | None = None
    """The key by which the parent's body knows it: its end is told under that key. None: nobody is told."""
    on_parent_end: str = "cancel"
    """"cancel" or "abandon": what happens to it when its parent ends first."""
    forked_from: str | None = None
    keeps_seed: bool = False
    """Use the seed of `forked_from` instead, if that run is still kept: a retry draws the same random numbers."""
    rows: tuple[bytes, ...] = ()
    """The journal rows that the run begins with, from seq 0: those of a retry, say."""
    trace: str | None = None
    """The trace that it belongs to, in W3C's form: that of whoever started it. The body sees this trace."""
    takes_key_of: str | None = None
    """Take `key` over from this run, which must exist and have ended. If another run holds the key, nothing is
    created."""

    @property
    def is_retry(self) -> bool:
        """Whether it goes on where `forked_from` stopped, in the same chain: it reads the messages that this one had
        not read."""
        return self.forked_from is not None and self.chain_id is not None


class StartedRun(msgspec.Struct, frozen=True, gc=False):
    """The answer to a start: the run that there is now, and whether this start has created it."""

    id: str
    status: RunStatus
    created: bool


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything that the store knows about a run, apart from its journal."""

    id: str
    workflow: str
    version: str
    queue: str
    status: RunStatus
    paused: bool
    key: str | None
    tags: Mapping[str, str]
    priority: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    due_at: datetime | None
    """When it wants to go on, at the latest at its deadline; None if only a message can wake it, or nothing."""
    deadline_at: datetime | None
    retention: int | None
    """How many microseconds it is kept after its end; None for ever."""
    chain_id: str
    origin_id: str
    """The run with which its life began: its steps' idempotency keys are made from that run's id. It is the run itself,
    or for a retry that of the run which it retries; a successor begins a life of its own."""
    parent_id: str | None
    forked_from: str | None
    successor_id: str | None
    """The run that continues this one, if this one ended as continued."""
    after_run_id: str | None
    """The run whose end it waits for before it begins; None if it waits for none."""
    owner: str | None
    epoch: int
    crashes: int
    blocked: str | None
    """Why the run is stopped although it has not ended, in words."""
    input: bytes
    output: bytes | None
    error: bytes | None
    trace: str | None = None
    """The trace that it belongs to, as it was started with."""


class JournalRow(msgspec.Struct, frozen=True, gc=False):
    """One turn as it is stored."""

    seq: int
    epoch: int
    at: Instant
    data: bytes


class ClaimedRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run as its new owner gets it, with its whole journal and inbox."""

    id: str
    workflow: str
    version: str
    epoch: int
    next_seq: int
    input: bytes
    seed: bytes
    key: str | None
    tags: Mapping[str, str]
    priority: int
    created_at: Instant
    started_at: Instant
    """Stamped by the first claim and kept ever after: the time of the `started` entry."""
    claimed_at: Instant
    due_at: Instant
    """Since when it could have been claimed: it was due, or was sent a message."""
    deadline_at: Instant | None
    chain_id: str
    origin_id: str
    """The run with which its life began: its steps' idempotency keys are made from that run's id."""
    parent_id: str | None
    queue: str
    is_paused: bool
    """It was paused when it was claimed. A cancel or its deadline ends the pause; without either it is given back."""
    crashes: int
    """Takeovers without progress, this one included."""
    is_takeover: bool
    has_to_wait: bool
    """It waits for another run's end, and was claimed because of a cancel or its deadline: no earlier owner has begun
    anything."""
    is_first: bool = False
    """No worker had it before, except those that gave it back unbegun."""
    blocked: str | None
    trace: str | None
    """The trace that it belongs to, as it was started with."""
    rows: tuple[JournalRow, ...]
    """The journal; empty for a run whose journal the caller said it has."""
    inbox: tuple[Message, ...]

    @property
    def is_untouched(self) -> bool:
        """Whether it can be given back as if it had not been claimed: it was due by itself, and was not paused."""
        return self.is_first and not self.is_paused and not self.has_to_wait and not self.inbox


class RowChange(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a turn, or a row-only write, changes in the run's row."""

    status: RunStatus
    due_at: Instant | None = None
    release: bool = False
    """Give the run back: it has no owner then, and the next seq is stored, so that its next claim is no takeover."""
    crashes: int = 0
    blocked: str | None = None
    output: bytes | None = None
    error: bytes | None = None


class Out(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a turn gives out beside its entries, in the same commit. None of it happens if the turn is refused."""

    children: tuple[NewRun, ...] = ()
    """Runs to create. `parent_id` and `parent_key` say who is told of their end. If another run holds a child's key,
    the child is not created: that run is joined, and its end is told like a child's."""
    waits: tuple[NewWait, ...] = ()
    closed: tuple[int, ...] = ()
    """Numbers of waits that are over: taken, timed out or cancelled."""
    signals: tuple[OutSignal, ...] = ()
    events: tuple[OutEvent, ...] = ()
    cancels: tuple[str, ...] = ()
    """The ids of runs to cancel: children whose parent says so."""
    values: tuple[tuple[str, bytes], ...] = ()
    items: tuple[tuple[str, bytes], ...] = ()
    """Items of streams, in order."""
    truncate: bool = False
    """This turn holds a checkpoint, so older rows of the journal may be deleted."""
    successor: NewRun | None = None
    """The run that continues this one, which ends as continued. It takes over the key, parent, inbox and children."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One turn to commit: accepted whole or refused whole."""

    run_id: str
    seq: int
    epoch: int
    at: Instant
    data: bytes
    change: RowChange | None = None
    """None on the hot path: then the insert of the journal's row is everything there is to do."""
    taken: tuple[int, ...] = ()
    """Ids of inbox messages that this turn took in; they are deleted with it."""
    out: Out | None = None
    """None on the hot path."""
    sent: tuple[StepItems | StepValue, ...] = ()
    """What a transactional step has sent, if its loan is exclusive: the same transaction writes it, before the turn."""
    created_at: Instant | None = None
    """When the claimed run was created, which tells it from a run that got its id after it was deleted. None: any."""


class RowWrite(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row-only write, guarded by owner and epoch: park, hand back, block."""

    run_id: str
    worker_id: str
    epoch: int
    next_seq: int | None
    """None: somebody may still write the next row, so the next claim has to be a takeover."""
    change: RowChange


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Chooses runs to list, count, cancel, retry, pause or delete. All given conditions must hold.

        RunFilter(workflow=checkout, status=("failed", "cancelled"), since=yesterday, tags={"kind": "gift"})

    `workflow` is a name or the decorated function. `status` is one or several of RunStatus, as members or as text.
    `since` and `until` are aware datetimes: the runs were created from `since` on, and before `until`. `parent` is the
    id of the run whose children are meant. A run must have all of `tags` and `input`, and may have others.

    `input` goes by the names of the arguments: `input={"order": {"card": "4711"}}`. The names come from workers that
    have registered the workflow, or from the function; if neither gives them, filtering by `input` is a
    DefinitionError. So is any condition that can't be one. `declared` is read from the function; do not give it.
    """

    workflow: Any = None
    """A name, or the decorated function itself."""
    status: RunStatus | str | Collection[RunStatus | str] | None = None
    key: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    input: Mapping[str, Any] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None
    parent: str | None = None
    declared: Declared | None = field(default=None, repr=False)
    """What the decorated function says about itself; read from it."""

    def __post_init__(self) -> None:
        # A decorated function stands for its name.
        name = getattr(self.workflow, "name", self.workflow)
        declared = getattr(self.workflow, "declared", None)
        if declared is None and self.workflow is not None and not isinstance(self.workflow, str):
            # A step has a name, too, and so have many other things.
            raise DefinitionError(
                f"RunFilter(workflow={self.workflow!r}): this is not a workflow; expected a name, or a function "
                "decorated with @workflow"
            )
        if self.declared is None:
            object.__setattr__(self, "declared", declared)
        object.__setattr__(self, "workflow", name)
        for what, text in (("workflow", name), ("key", self.key), ("parent", self.parent)):
            if text is not None and not is_text(text):
                raise DefinitionError(f"RunFilter({what}={text!r}): expected text")
        if not isinstance(self.tags, Mapping) or not all(is_text(k) and is_text(v) for k, v in self.tags.items()):
            raise DefinitionError(f'RunFilter(tags={self.tags!r}): expected a mapping of text to text, as {{"a": "b"}}')
        if not isinstance(self.input, Mapping) or not _is_plain(self.input):
            raise DefinitionError(
                f"RunFilter(input={self.input!r}): expected arguments by name with what they hold as plain JSON, as "
                '{"order": {"card": "4711"}}'
            )


def _is_plain(input: Mapping[str, Any]) -> bool:
    try:
        return all(is_text(name) and is_json(value) for name, value in input.items())
    except RecursionError:
        # Not shown: it could not be written either.
        raise DefinitionError("RunFilter(input=): it nests too deeply; expected what a run's input holds") from None


def is_json(value: object) -> bool:
    """Whether the value is plain JSON that every store can keep: no text in it has a NUL or a lone surrogate."""
    if isinstance(value, Mapping):
        return all(is_text(key) and is_json(one) for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(is_json, value))
    return value is None or is_text(value) or isinstance(value, (bool, int, float))


@dataclass(frozen=True, slots=True)
class Page(Generic[T_co]):
    """One page of many: `next` is the cursor of the following page, None on the last one."""

    items: tuple[T_co, ...]
    next: str | None
