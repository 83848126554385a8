"""The journal's entries: what a run took in and what it asked for, in order.

An entry is either an input (it is delivered to the body and moves the run's clock) or an ask (it follows from the input
before it). One row of the journal is one turn: several entries, encoded here as one blob. Payloads inside are bytes
that only the codec understands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from .durations import Instant


class _Entry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    @property
    def kind(self) -> str:
        """The entry's name in the journal, as in `step_completed`."""
        tag = self.__struct_config__.tag
        assert isinstance(tag, str)
        return tag


class Started(_Entry, frozen=True, gc=False, tag="started"):
    """The body begins. The seed feeds rng, uuid4 and tokens."""

    at: Instant
    seed: bytes


class StepAsked(_Entry, frozen=True, gc=False, tag="step_asked"):
    """The body asked for a step: its key and a digest of its encoded arguments."""

    key: str
    digest: bytes
    args: bytes | None = None


class Undoing(StepAsked, frozen=True, gc=False, tag="undoing"):
    """A compensation that runs as a step. From here on the run can't be tried again: its effects are being undone."""

    @property
    def kind(self) -> str:
        """Readers see it as a step like any other."""
        return "step_asked"


class StepRetrying(_Entry, frozen=True, gc=False, tag="step_retrying"):
    """An attempt failed and another one follows at `retry_at`. The body does not see it.

    `details` are the attempt's last heartbeat details, for the next attempt to go on from.
    """

    at: Instant
    key: str
    attempt: int
    error: bytes
    retry_at: Instant
    first_at: Instant
    details: bytes | None = None


class StepCompleted(_Entry, frozen=True, gc=False, tag="step_completed"):
    """A step's result. The step is never executed again."""

    at: Instant
    key: str
    attempt: int
    result: bytes


class StepFailed(_Entry, frozen=True, gc=False, tag="step_failed"):
    """A step's final failure: an entry like a result.

    `done` is for the chunk of a map whose items can be undone: the results of those before the one that failed.
    """

    at: Instant
    key: str
    attempt: int
    error: bytes
    done: bytes | None = None


class TimerFired(_Entry, frozen=True, gc=False, tag="timer_fired"):
    """A durable timer was due. Timers are numbered in the order in which the body set them."""

    at: Instant
    timer: int


class Cancel(_Entry, frozen=True, gc=False, tag="cancel"):
    """The run was asked to end: by someone, or by its deadline."""

    at: Instant
    reason: str | None = None
    deadline: bool = False


class Signal(_Entry, frozen=True, gc=False, tag="signal"):
    """A signal came for a wait. Waits are numbered in the order in which the body asked for them."""

    at: Instant
    wait: int
    name: str
    payload: bytes
    sent_at: Instant = 0
    """By this time a message that is put back finds its old place among those not taken yet. 0 in old journals: as
    `at`."""


class EventTaken(_Entry, frozen=True, gc=False, tag="event"):
    """A published event came for a wait."""

    at: Instant
    wait: int
    name: str
    payload: bytes
    sent_at: Instant = 0


class HookResumed(_Entry, frozen=True, gc=False, tag="hook"):
    """Somebody resumed a hook with a payload."""

    at: Instant
    wait: int
    name: str
    payload: bytes
    sent_at: Instant = 0
    hook: int = 0
    """The place of the hook among the run's hooks, in the order in which they were made; 0 if that is not known."""


class SetAside(_Entry, frozen=True, gc=False, tag="set_aside"):
    """A message that does not fit the type that its wait expects. The body does not see it; the wait goes on."""

    at: Instant
    wait: int
    name: str
    payload: bytes
    reason: str


class ChildAsked(_Entry, frozen=True, gc=False, tag="child_asked"):
    """The body asked for a child run: its key, the run's id and a digest of its encoded arguments."""

    key: str
    run_id: str
    workflow: str
    digest: bytes


class ChildEnded(_Entry, frozen=True, gc=False, tag="child_ended"):
    """A child run has ended."""

    at: Instant
    key: str
    run_id: str
    status: str
    output: bytes | None = None
    error: bytes | None = None

    @property
    def is_failure(self) -> bool:
        """Whether it raises in its parent."""
        return self.status != "completed"


class Patched(_Entry, frozen=True, gc=False, tag="patched"):
    """From here on the run goes the new way of a change."""

    change_id: str


class StoredRetry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A `Retry` in a journal: durations in microseconds, exception classes by module and name."""

    attempts: int | None
    initial: int
    factor: float
    max: int
    jitter: float
    kind: Literal["fixed", "linear", "exponential"]
    on: tuple[tuple[str, str], ...]
    unless: tuple[tuple[str, str], ...]
    within: int | None


class Undo(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A compensation on its way to the next run of a chain: where its function is found, its name, its arguments."""

    module: str
    qualname: str
    name: str
    args: bytes
    retry: StoredRetry | None = None
    """The policy that `.options` gave it; None: that of the step which is found."""
    timeout: int | None = None
    """The timeout that `.options` gave it, in microseconds; None: that of the step which is found."""


class Checkpoint(_Entry, frozen=True, gc=False, tag="checkpoint"):
    """The whole state of a machine: replay starts here, and older rows may be deleted."""

    at: Instant
    started: Started
    state: bytes
    counts: dict[str, int]
    """How often each name was used for a key."""
    timers: int
    undo: tuple[Undo, ...] = ()
    """Compensations that an earlier run of the chain has left to be run."""


class Claimed(_Entry, frozen=True, gc=False, tag="claimed"):
    """A worker took the run over from a worker that did not hand it back. This row is the fence."""

    at: Instant
    worker_id: str


class Blocked(_Entry, frozen=True, gc=False, tag="blocked"):
    """The body could not go on, and nothing that it asked for counts.

    The `results` entries behind this one had come in by then: they are recorded, but the body has yet to get them.
    """

    at: Instant
    results: int


class Former(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What the body of another run, which this one retries, was told of its run."""

    id: str
    created_at: Instant
    started_at: Instant
    deadline_at: Instant | None
    trace: str | None = None


NAMELESS = "\0"
"""Stands for a hook whose name is not known any more. No hook has this name."""


class RunRetrying(_Entry, frozen=True, gc=False, tag="run_retrying"):
    """The body failed, and its workflow's policy tries again at `retry_at` from the last failure delivered to it."""

    at: Instant
    attempt: int
    error: bytes
    retry_at: Instant
    first_at: Instant
    former: Former | None = None
    """The run to which the journal belongs up to here, if it is another one."""
    failed: tuple[str, ...] = ()
    """The keys of children that had failed before: if one of them is open again, another run is meant by it."""
    hooks: tuple[str, ...] = ()
    """The names of the hooks that were made before, in order. Their tokens are out, and each stays with its hook, in
    whichever order the next try makes them. NAMELESS stands for a hook whose name is not known."""
    joined: tuple[str, ...] = ()
    """The keys of children with an id of their own that the end of `former` has not called off: somebody else began
    them, or they have completed."""
    is_whole: bool = False
    """The run was ended by force, and nothing of its journal is cut off."""


class Relived(RunRetrying, frozen=True, gc=False, tag="relived"):
    """The same entry in a history that a fork shares. What it has cut off is already left out there."""

    @property
    def kind(self) -> str:
        """Readers see it as a retry like any other."""
        return "run_retrying"


class Reopened(_Entry, frozen=True, gc=False, tag="reopened"):
    """The run goes on from a cut. Children and waits that were open there are to be asked for anew; if `done`, they
    were."""

    at: Instant
    done: bool = False


class MadeHook(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A hook as a run of a chain has made it: its token is drawn from that run's seed and the hook's place among its
    hooks."""

    name: str
    number: int
    """The number by which it is registered. No other hook of the chain has it."""
    seed: bytes
    place: int
    is_renewed: bool = False
    """It was open where the run was forked from another one, and got another token then."""
    expires_at: Instant | None = None


class Inherited(_Entry, frozen=True, gc=False, tag="inherited"):
    """What a run takes over from the run before it in its chain: the compensations registered there, first registered
    first.

    Also the messages that were taken out of the inbox and that the body has not read; the hooks that are still open, or
    whose payload is among these messages, in the order in which they were made; and how many hooks the chain has made.
    """

    at: Instant
    undo: tuple[Undo, ...]
    mail: tuple[Signal | EventTaken | HookResumed, ...] = ()
    hooks: tuple[MadeHook, ...] = ()
    hooks_made: int = 0


class Reseeded(_Entry, frozen=True, gc=False, tag="reseeded"):
    """The run is a fork: after the cut it draws from another seed than the original run.

    Without `until` it does so at once. Else it does so when it asks for a step or child whose key is not in `until`:
    these are the keys that the original asked for before the step at which the cut was made.
    """

    at: Instant
    seed: bytes
    until: tuple[str, ...] | None = None


class _End(_Entry, frozen=True, gc=False):
    at: Instant
    status: str
    output: bytes | None = None
    error: bytes | None = None


class Ended(_End, frozen=True, gc=False, tag="ended", kw_only=True):
    """The run's end: completed, failed or cancelled."""

    # Keyword-only, so that in storage it stands behind the fields that `Stopped` adds.
    hooks: tuple[str, ...] = ()
    """For a run that may be retried, as in `RunRetrying`."""


class Stopped(Ended, frozen=True, gc=False, tag="stopped"):
    """An end in which the body had no part: cancelled before it began, or by force."""

    reason: str | None = None
    skipped: tuple[str, ...] = ()
    """What the end did not wait for, in words."""
    was_blocked: bool = False
    """The run was blocked by then: a run that retries it may have other code, and need not repeat its last asks."""

    @property
    def kind(self) -> str:
        """Readers see it as an end like any other."""
        return "ended"


Delivered: TypeAlias = Signal | EventTaken | HookResumed | SetAside | ChildEnded
"""The entry that a message from the inbox becomes."""
Input: TypeAlias = Started | StepRetrying | StepCompleted | StepFailed | TimerFired | Cancel | RunRetrying | Delivered
Ask: TypeAlias = StepAsked | ChildAsked | Patched | Checkpoint
MESSAGES = (Signal, EventTaken, HookResumed)
ASKS = (StepAsked, Undoing, ChildAsked, Patched, Checkpoint)
Result: TypeAlias = StepCompleted | StepFailed | StepRetrying
"""The outcome of an attempt."""
Entry: TypeAlias = (
    Input | Ask | Undoing | Inherited | Reseeded | Relived | Claimed | Blocked | Reopened | Ended | Stopped
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Entry]] = msgspec.msgpack.Decoder(list[Entry])


def encode_entries(entries: Sequence[Entry]) -> bytes:
    """A turn's entries as the blob of its row."""
    return _encoder.encode(entries)


def decode_entries(data: bytes) -> list[Entry]:
    """The entries of one row."""
    return _decoder.decode(data)
