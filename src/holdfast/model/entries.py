"""The journal's entries: what a run took in and what it asked for, in order.

An entry is either an input (it is delivered to the body and moves the run's clock) or an ask (it follows from the input
before it). One row of the journal is one turn: several entries, encoded here as one blob. Payloads inside are bytes
that only the codec understands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

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


class EventTaken(_Entry, frozen=True, gc=False, tag="event"):
    """A published event came for a wait."""

    at: Instant
    wait: int
    name: str
    payload: bytes


class HookResumed(_Entry, frozen=True, gc=False, tag="hook"):
    """Somebody resumed a hook with a payload."""

    at: Instant
    wait: int
    name: str
    payload: bytes


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


class Patched(_Entry, frozen=True, gc=False, tag="patched"):
    """From here on the run goes the new way of a change."""

    change_id: str


class Checkpoint(_Entry, frozen=True, gc=False, tag="checkpoint"):
    """All that there is to know of a machine: replay starts here, and older rows may go."""

    at: Instant
    started: Started
    state: bytes
    counts: dict[str, int]
    """How often each name was used for a key."""
    timers: int


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


class RunRetrying(_Entry, frozen=True, gc=False, tag="run_retrying"):
    """The body failed and its workflow's policy tries again at `retry_at` from the last failure delivered to it."""

    at: Instant
    attempt: int
    error: bytes
    retry_at: Instant
    first_at: Instant


class Reopened(_Entry, frozen=True, gc=False, tag="reopened"):
    """The run goes on from a cut. What was open there, children and waits, is asked for anew; `done`: it was."""

    at: Instant
    done: bool = False


class Ended(_Entry, frozen=True, gc=False, tag="ended"):
    """The run's end: completed, failed or cancelled."""

    at: Instant
    status: str
    output: bytes | None = None
    error: bytes | None = None


class Stopped(Ended, frozen=True, gc=False, tag="stopped"):
    """An end that the body had no part in: cancelled before it began, or by force."""

    reason: str | None = None
    skipped: tuple[str, ...] = ()
    """What was not waited for, in words."""

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
Entry: TypeAlias = Input | Ask | Undoing | Claimed | Blocked | Reopened | Ended | Stopped

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Entry]] = msgspec.msgpack.Decoder(list[Entry])


def encode_entries(entries: Sequence[Entry]) -> bytes:
    """A turn's entries as the blob of its row."""
    return _encoder.encode(entries)


def decode_entries(data: bytes) -> list[Entry]:
    """The entries of one row."""
    return _decoder.decode(data)


Carried: TypeAlias = Result | TimerFired | Delivered


class History(NamedTuple):
    """What a journal means for the body that is rebuilt from it.

    `entries` are delivered in order; what the body asks for on the way is compared. `carried` is taken in anew after
    that, as inputs whose asks nobody knows: results that were recorded when the body was blocked, and, if the last
    thing that happened is a retry of the whole run (`retrying` is then its entry), results that came after the cut for
    steps asked before it.
    """

    entries: list[Entry]
    carried: list[Carried]
    retrying: RunRetrying | None
    lives: tuple[tuple[int, RunRetrying], ...] = ()
    """Where in `entries` each new try of the run begins: a body is told its attempt as it was when it lived there."""
    is_cut: bool = False
    """The run goes on from a cut, and what was open there has not been asked for anew yet."""


def history_of(entries: Iterable[Entry]) -> History:
    """The history that counts: claims left out, and cut wherever the run was tried again."""
    kept: list[Entry] = []
    carried: dict[str | int, Carried] = {}
    coming = 0
    retrying: RunRetrying | None = None
    lives: list[tuple[int, RunRetrying]] = []
    is_cut = False
    for entry in entries:
        if coming:
            coming -= 1
            if isinstance(entry, MESSAGES):
                carried[_place(carried)] = entry
            elif isinstance(entry, (StepCompleted, StepFailed, StepRetrying, TimerFired, ChildEnded)):
                carried[_name(entry)] = entry
        elif isinstance(entry, Checkpoint):
            # Whatever came before is in it.
            kept, carried, lives, retrying, is_cut = [entry.started, entry], {}, [], None, False
        elif not isinstance(entry, (RunRetrying, Blocked, Claimed, Reopened, Ended)):
            kept.append(entry)
            retrying, is_cut = None, False
            if carried:
                _delivered(carried, entry)
        elif isinstance(entry, RunRetrying):
            kept, carried = _cut(kept, carried)
            retrying, is_cut = entry, True
            # What was cut off takes the lives that began in it along.
            lives = [life for life in lives if life[0] < len(kept)]
            lives.append((len(kept), entry))
        elif isinstance(entry, Blocked):
            coming = entry.results
        elif isinstance(entry, Reopened):
            retrying, is_cut = None if entry.done else retrying, not entry.done
    return History(kept, [*carried.values()], retrying, tuple(lives), is_cut)


def _name(entry: StepCompleted | StepFailed | StepRetrying | ChildEnded | TimerFired) -> str | int:
    """Of the step, child or timer whose end this is."""
    return entry.timer if isinstance(entry, TimerFired) else entry.key


def _place(carried: dict[str | int, Carried]) -> int:
    """A name for a message among those carried: messages have none of their own, and timers count up from one."""
    return min((name for name in carried if isinstance(name, int)), default=0) - 1


def _delivered(carried: dict[str | int, Carried], entry: Entry) -> None:
    """The body has got one of those carried: a result by its name, a message by what it holds."""
    if isinstance(entry, (*MESSAGES, SetAside)):
        for name, one in carried.items():
            is_same = entry.__class__ is SetAside or entry.__class__ is one.__class__
            if is_same and isinstance(one, MESSAGES) and (one.name, one.payload) == (entry.name, entry.payload):
                del carried[name]
                return
    elif isinstance(entry, (StepCompleted, StepFailed, StepRetrying, TimerFired, ChildEnded)):
        carried.pop(_name(entry), None)


def _is_failure(entry: Entry) -> bool:
    return isinstance(entry, StepFailed) or (isinstance(entry, ChildEnded) and entry.status != "completed")


def _cut(entries: list[Entry], undelivered: dict[str | int, Carried]) -> tuple[list[Entry], dict[str | int, Carried]]:
    """Cut at the cancel, else at the last failure delivered, else before the last input, which is then taken in anew.

    The failed step is open again and its attempts are counted from one; a failed child is asked for anew. A result that
    the body never got is as good as one that came after the cut. Messages that were taken after it are there for the
    next try: nobody sends them twice. A machine is cut behind its checkpoint at most.
    """
    at = next((i for i, entry in enumerate(entries) if isinstance(entry, Cancel)), None)
    if at is None:
        at = max((i for i, entry in enumerate(entries) if _is_failure(entry)), default=None)
    carried: dict[str | int, Carried] = {}
    if at is None:
        # The body failed by itself: what it does after its last input is open again.
        first = len(entries) if any(isinstance(entry, Checkpoint) for entry in entries[1:2]) else 0
        inputs = (i for i, entry in enumerate(entries) if not isinstance(entry, ASKS) and (i or not first))
        at = max(inputs, default=first)
        before = entries[:at]
        after: list[Entry] = entries[at : at + 1]
        for entry in after:
            if isinstance(entry, (StepCompleted, TimerFired, ChildEnded)):
                carried[_name(entry)] = entry
        asked = {entry.key for entry in before if isinstance(entry, (StepAsked, ChildAsked))}
    else:
        before, cause, after = entries[:at], entries[at], entries[at + 1 :]
        asked = {entry.key for entry in before if isinstance(entry, (StepAsked, ChildAsked))}
        if isinstance(cause, StepFailed):
            asked.discard(cause.key)
            before = [entry for entry in before if not (isinstance(entry, StepRetrying) and entry.key == cause.key)]
    for entry in (*after, *undelivered.values()):
        if isinstance(entry, (StepCompleted, ChildEnded)) and entry.key in asked and not _is_failure(entry):
            carried[entry.key] = entry
    messages = [entry for entry in (*undelivered.values(), *after) if isinstance(entry, MESSAGES)]
    for message in sorted(messages, key=lambda message: message.at):
        carried[_place(carried)] = message
    return before, carried
