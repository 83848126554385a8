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


class StepRetrying(_Entry, frozen=True, gc=False, tag="step_retrying"):
    """An attempt failed and another one follows at `retry_at`. The body does not see it."""

    at: Instant
    key: str
    attempt: int
    error: bytes
    retry_at: Instant
    first_at: Instant


class StepCompleted(_Entry, frozen=True, gc=False, tag="step_completed"):
    """A step's result. It is never executed again."""

    at: Instant
    key: str
    attempt: int
    result: bytes


class StepFailed(_Entry, frozen=True, gc=False, tag="step_failed"):
    """A step's final failure: an entry like a result."""

    at: Instant
    key: str
    attempt: int
    error: bytes


class TimerFired(_Entry, frozen=True, gc=False, tag="timer_fired"):
    """A durable timer was due. Timers are numbered in the order in which the body set them."""

    at: Instant
    timer: int


class Cancel(_Entry, frozen=True, gc=False, tag="cancel"):
    """The run was asked to end: by someone, or by its deadline."""

    at: Instant
    reason: str | None = None
    deadline: bool = False


class Claimed(_Entry, frozen=True, gc=False, tag="claimed"):
    """A worker took the run over from one that did not hand it back. This row is the fence."""

    at: Instant
    worker_id: str


class RunRetrying(_Entry, frozen=True, gc=False, tag="run_retrying"):
    """The body failed and its workflow's policy tries again at `retry_at` from the last failure delivered to it."""

    at: Instant
    attempt: int
    error: bytes
    retry_at: Instant
    first_at: Instant


class Ended(_Entry, frozen=True, gc=False, tag="ended"):
    """The run's end: completed, failed or cancelled."""

    at: Instant
    status: str
    output: bytes | None = None
    error: bytes | None = None


Input: TypeAlias = Started | StepRetrying | StepCompleted | StepFailed | TimerFired | Cancel | RunRetrying
Ask: TypeAlias = StepAsked
Entry: TypeAlias = Input | Ask | Claimed | Ended

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[Entry]] = msgspec.msgpack.Decoder(list[Entry])


def encode_entries(entries: Sequence[Entry]) -> bytes:
    """A turn's entries as the blob of its row."""
    return _encoder.encode(entries)


def decode_entries(data: bytes) -> list[Entry]:
    """The entries of one row."""
    return _decoder.decode(data)


Carried: TypeAlias = StepCompleted | TimerFired


class History(NamedTuple):
    """What a journal means for the body that is rebuilt from it.

    `entries` are delivered in order. If the last thing that happened is a retry of the whole run, `retrying` is its
    entry and `carried` holds results that came after the cut for steps asked before it: they are taken in anew, as
    inputs.
    """

    entries: list[Entry]
    carried: list[Carried]
    retrying: RunRetrying | None
    lives: tuple[tuple[int, RunRetrying], ...] = ()
    """Where in `entries` each new try of the run begins: a body is told its attempt as it was when it lived there."""


def history_of(entries: Iterable[Entry]) -> History:
    """The history that counts: claims left out, and cut wherever the run was tried again."""
    kept: list[Entry] = []
    carried: list[Carried] = []
    retrying: RunRetrying | None = None
    lives: list[tuple[int, RunRetrying]] = []
    for entry in entries:
        if isinstance(entry, RunRetrying):
            kept, carried = _cut(kept)
            retrying = entry
            # What was cut off takes the lives that began in it along.
            lives = [life for life in lives if life[0] < len(kept)]
            lives.append((len(kept), entry))
        elif not isinstance(entry, (Claimed, Ended)):
            kept.append(entry)
            carried, retrying = [], None
    return History(kept, carried, retrying, tuple(lives))


def _cut(entries: list[Entry]) -> tuple[list[Entry], list[Carried]]:
    """Cut at the cancel, else at the last failure delivered, else before the last input, which is then taken in anew.

    The failed step is open again and its attempts are counted from one.
    """
    at = next((i for i, entry in enumerate(entries) if isinstance(entry, Cancel)), None)
    if at is None:
        at = max((i for i, entry in enumerate(entries) if isinstance(entry, StepFailed)), default=None)
    if at is None:
        # The body failed by itself: what it does after its last input is open again.
        at = max((i for i, entry in enumerate(entries) if not isinstance(entry, StepAsked)), default=0)
        return entries[:at], [entry for entry in entries[at : at + 1] if isinstance(entry, (StepCompleted, TimerFired))]
    before, cause = entries[:at], entries[at]
    asked = {entry.key for entry in before if isinstance(entry, StepAsked)}
    if isinstance(cause, StepFailed):
        asked.discard(cause.key)
        before = [entry for entry in before if not (isinstance(entry, StepRetrying) and entry.key == cause.key)]
    carried: list[Carried] = [
        entry for entry in entries[at + 1 :] if isinstance(entry, StepCompleted) and entry.key in asked
    ]
    return before, carried
