"""Messages: those that wait in a run's inbox until a turn takes them, and those that a turn sends to others."""

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
    """The name of the signal, event or hook; the key of a child. None for a cancel and a pause."""
    payload: bytes
    """For the codec to decode; for a cancel its reason; for a child an encoded `ChildEnd`; for a pause b"paused" or
    b"resumed"."""
    sent_at: Instant
    wait: int | None = None
    """The number of the wait for which this event or hook payload came; None: a wait of an earlier run of the chain."""
    trace: str | None = None
    """The place of its sender in a trace, in W3C's form."""
    hook: int = 0
    """For a hook payload that was taken before the run was tried again: the place of the hook among the run's hooks."""


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
    """The key of the child that is meant, if the child may have joined another run by a key: no run has this id
    then."""


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
    """The place of its publisher in a trace."""
