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
    """A compensation that runs as a step. From here on the run can't be tried again: what it did is being undone."""

    @property
    def kind(self) -> str:
        """To readers it is a step like any other."""
        return "step_asked"


class StepRetrying(_Entry, frozen=True, gc=False, tag="step_retrying"):
    """An attempt failed and another one follows at `retry_at`. The body does not see it.

    `details` are what it said of itself last, for the next one to go on from.
    """

    at: Instant
    key: str
    attempt: int
    error: bytes
    retry_at: Instant
    first_at: Instant
    details: bytes | None = None


class StepCompleted(_Entry, frozen=True, gc=False, tag="step_completed"):
    """A step's result. It is never executed again."""

    at: Instant
    key: str
    attempt: int
    result: bytes


class StepFailed(_Entry, frozen=True, gc=False, tag="step_failed"):
    """A step's final failure: an entry like a result.

    `done` is of the chunk of a map whose items can be undone: the results of those before the one that failed.
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
    """By it a message that is put back finds its old place among those not taken yet. 0, of old journals: as `at`."""


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
    """Which of the run's hooks it was, in the order in which they were made; 0: that is not known."""


class SetAside(_Entry, frozen=True, gc=False, tag="set_aside"):
    """A message that doesn't fit the type that its wait expects. The body does not see it; the wait goes on."""

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
    """What `.options` gave it; None: that of the step which is found."""
    timeout: int | None = None
    """The same, in microseconds."""


class Checkpoint(_Entry, frozen=True, gc=False, tag="checkpoint"):
    """All that there is to know of a machine: replay starts here, and older rows may go."""

    at: Instant
    started: Started
    state: bytes
    counts: dict[str, int]
    """How often each name was used for a key."""
    timers: int
    undo: tuple[Undo, ...] = ()
    """What an earlier run of the chain has left to be undone."""


class Claimed(_Entry, frozen=True, gc=False, tag="claimed"):
    """A worker took the run over from one that did not hand it back. This row is the fence."""

    at: Instant
    worker_id: str


class Blocked(_Entry, frozen=True, gc=False, tag="blocked"):
    """The body could not go on, and nothing that it asked for counts.

    The `results` entries behind this one had come in by then: they are recorded, but the body has yet to get them.
    """

    at: Instant
    results: int


class Former(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What another run, which this one retries, was told of itself."""

    id: str
    created_at: Instant
    started_at: Instant
    deadline_at: Instant | None
    trace: str | None = None


NAMELESS = "\0"
"""Of a hook whose name nobody knows any more; none has this one."""


class RunRetrying(_Entry, frozen=True, gc=False, tag="run_retrying"):
    """The body failed and its workflow's policy tries again at `retry_at` from the last failure delivered to it."""

    at: Instant
    attempt: int
    error: bytes
    retry_at: Instant
    first_at: Instant
    former: Former | None = None
    """The run that lived until here, if it was another one."""
    failed: tuple[str, ...] = ()
    """The keys of children that had failed until here: where one is open again, another run is meant by it."""
    hooks: tuple[str, ...] = ()
    """The names of the hooks that were made until here, in order. Their tokens are out, and each is that hook's, in
    whichever order the next try makes them. NAMELESS is one of which only that is known."""
    joined: tuple[str, ...] = ()
    """The keys of children by an id of their own that the end of `former` has not called off: they were begun by
    somebody else, or have completed."""
    is_whole: bool = False
    """The run was ended by force, and nothing of what it had lived through is cut off."""


class Relived(RunRetrying, frozen=True, gc=False, tag="relived"):
    """The same in the history that a fork shares, from which what it had cut off is left out already."""

    @property
    def kind(self) -> str:
        """To readers it is a try like any other."""
        return "run_retrying"


class Reopened(_Entry, frozen=True, gc=False, tag="reopened"):
    """The run goes on from a cut. What was open there, children and waits, is to be asked for anew, or was (`done`)."""

    at: Instant
    done: bool = False


class MadeHook(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A hook as a run of a chain has made it: its token is drawn from that run's seed, by its place among its hooks."""

    name: str
    number: int
    """That by which it is registered: no other hook of the chain has it."""
    seed: bytes
    place: int
    is_renewed: bool = False
    """It was open where the run was forked from another one, and got another token then."""
    expires_at: Instant | None = None


class Inherited(_Entry, frozen=True, gc=False, tag="inherited"):
    """What the run before this one in its chain had registered to be undone, first registered first.

    And what it had taken out of its inbox, but no line of its body has read; its hooks that are open still, or whose
    payload is among that, in the order in which they were made; and how many the chain has made up to here.
    """

    at: Instant
    undo: tuple[Undo, ...]
    mail: tuple[Signal | EventTaken | HookResumed, ...] = ()
    hooks: tuple[MadeHook, ...] = ()
    hooks_made: int = 0


class Reseeded(_Entry, frozen=True, gc=False, tag="reseeded"):
    """The run is a fork: behind the cut it draws otherwise than the run that it stems from.

    Without `until` at once; else when it asks for a step or a child that is not among those, which the other run
    asked for before the step at which the cut was made.
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

    # By its name alone: so it stands behind what an end from outside has, as it is stored.
    hooks: tuple[str, ...] = ()
    """Of a run that may be retried, as in `RunRetrying`."""


class Stopped(Ended, frozen=True, gc=False, tag="stopped"):
    """An end that the body had no part in: cancelled before it began, or by force."""

    reason: str | None = None
    skipped: tuple[str, ...] = ()
    """What was not waited for, in words."""
    was_blocked: bool = False
    """The run's code could not go on by then: what retries it may be other code, and is not held to its last asks."""

    @property
    def kind(self) -> str:
        """To readers it is an end like any other."""
        return "ended"


Delivered: TypeAlias = Signal | EventTaken | HookResumed | SetAside | ChildEnded
"""What comes of a message from the inbox."""
Input: TypeAlias = Started | StepRetrying | StepCompleted | StepFailed | TimerFired | Cancel | RunRetrying | Delivered
Ask: TypeAlias = StepAsked | ChildAsked | Patched | Checkpoint
MESSAGES = (Signal, EventTaken, HookResumed)
ASKS = (StepAsked, Undoing, ChildAsked, Patched, Checkpoint)
Result: TypeAlias = StepCompleted | StepFailed | StepRetrying
"""What an attempt comes to."""
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
