"""Messages: what waits in a run's inbox until a turn takes it into the journal, and what a turn sends to others."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .durations import Instant


class Message(msgspec.Struct, frozen=True, gc=False):
    """One inbox row."""

    id: int
    run_id: str
    kind: str
    """"cancel", "signal", "event", "hook", "child" or "pause"."""
    name: str | None
    """Of the signal, event or hook; the key of a child. None for a cancel and a pause."""
    payload: bytes
    """What the codec understands; of a cancel its reason; of a child an encoded `ChildEnd`; of a pause b"paused" or
    b"resumed"."""
    sent_at: Instant
    wait: int | None = None
    """The number of the wait that this event or hook payload is for; None: a wait of an earlier run of the chain."""
    trace: str | None = None
    """Where its sender stands in a trace, as W3C writes it."""
    hook: int = 0
    """Of a payload that was taken before the run was tried again: which of its hooks has the token, by their order."""


class Unread(msgspec.Struct, frozen=True):
    """Messages of one name that no turn has taken."""

    kind: str
    name: str | None
    count: int


class ChildEnd(msgspec.Struct, frozen=True, array_like=True):
    """How a child ended: the payload of its message to its parent."""

    run_id: str
    status: str
    output: bytes | None = None
    error: bytes | None = None


class OutSignal(msgspec.Struct, frozen=True):
    """A signal that a body sends with its turn."""

    run_id: str
    name: str
    payload: bytes
    trace: str | None = None
    child: str | None = None
    """The key of the child that is meant, if it may have joined a run by its own key: there is none of this id then."""


class OutEvent(msgspec.Struct, frozen=True):
    """An event that a body publishes with its turn."""

    name: str
    payload: bytes
    trace: str | None = None


class Sent(StrEnum):
    """What became of a message."""

    SENT = "sent"
    DUPLICATE = "duplicate"
    """One with this message_id was sent before; nothing happened."""
    ENDED = "ended"
    """Its run has ended, and so has the chain."""
    MISSING = "missing"
    """There is no such run or hook, or it was deleted."""
    USED = "used"
    """The hook was resumed before."""
    EXPIRED = "expired"
    """The hook's time is over."""


class Event(msgspec.Struct, frozen=True):
    """A published fact, as it is kept."""

    id: int
    name: str
    payload: bytes
    published_at: Instant
    trace: str | None = None
    """Where whoever published it stands in a trace."""
