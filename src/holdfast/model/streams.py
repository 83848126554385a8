"""Streams and values: live state of a run that a client can read and follow."""

from __future__ import annotations

import msgspec

from .durations import Instant


class StepItems(msgspec.Struct, frozen=True):
    """Items that one execution of a step sends to a stream, in order.

    The run's epoch and the attempt tell executions apart: items of an earlier execution are too late once a later one
    has sent any. The number tells an item that is sent again, because its answer was lost, from the next one.
    """

    run_id: str
    stream: str
    payloads: tuple[bytes, ...]
    step: str
    attempt: int
    epoch: int
    number: int = 0
    """How many items this execution had sent to this stream before."""


class StepValue(msgspec.Struct, frozen=True):
    """A value that a step sets."""

    run_id: str
    name: str
    value: bytes
    epoch: int


class ValueName(msgspec.Struct, frozen=True):
    """A value that a run has set, without the value."""

    name: str
    size: int
    """In bytes, as it is stored."""
    set_at: Instant


class StreamName(msgspec.Struct, frozen=True):
    """A stream of a run's, without its items."""

    name: str
    last: int
    """The offset of its last item, which is how many items there are."""


class StreamRecord(msgspec.Struct, frozen=True):
    """One item of a stream, as it is stored. Offsets begin at 1 and grow: a follower goes on after the last it saw."""

    offset: int
    payload: bytes
    step: str | None
    """The key of the step that sent it; None: the body did."""
    attempt: int
    at: Instant
    reset: bool = False
    """This item begins another attempt of its step: what that step's earlier attempts sent no longer counts."""
    origin_id: str | None = None
    """The run with which the sender's life began, since a successor's step of the same key is another one. None: that
    run is deleted."""
