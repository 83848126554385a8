"""Streams and values: live state of a run that a client can read and follow."""

from __future__ import annotations

import msgspec

from .durations import Instant


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
