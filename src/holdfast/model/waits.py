"""Waits: what the outside may know about what a run waits for.

A wait for a signal needs a row only for its schema, so that a payload that does not fit is refused where it is sent.
Waits for events and hooks live in the store: events are matched with them there, and hooks are found by their token.
"""

from __future__ import annotations

import msgspec

from .durations import Instant
from .messages import Event

FIRST_HOOK = 1_000_000_000
"""Hooks are registered by numbers of their own, above those of all other waits: this, plus which of the chain's hooks
it is. Other waits may get other numbers when a run is tried again, but payloads for a token must find the same hook
then, and in a successor, too."""


class NewWait(msgspec.Struct, frozen=True, kw_only=True):
    """A wait that a turn registers. Its number is the body's own: waits are numbered in the order of asking, and hooks
    apart from them, see `FIRST_HOOK`."""

    number: int
    kind: str
    """"signal", "event" or "hook"."""
    name: str
    match: bytes | None = None
    """Plain JSON that the payload must hold. It is plain even if the codec encrypts: it was in the code."""
    probe: bytes | None = None
    """Finds waits that an event may match without looking at the others: see `probes_of`."""
    schema: bytes | None = None
    """The JSON schema that a payload must fit, as JSON."""
    token: str | None = None
    """The digest of a hook's token, never the token itself."""
    expires_at: Instant | None = None


class WaitRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A wait as the outside sees it."""

    run_id: str
    number: int
    kind: str
    name: str
    match: bytes | None
    schema: bytes | None
    expires_at: Instant | None
    registered_at: Instant


class Looked(msgspec.Struct, frozen=True):
    """How far a look for a wait's events has got: it has seen all events up to the one of this time and id.

    It has not seen those that were matched only after `matched_since`: they may stand before that.
    """

    at: Instant
    id: int
    matched_since: Instant


class EventWait(msgspec.Struct, frozen=True):
    """A wait for an event, as a matching worker sees it."""

    run: int
    """The store's own number of the run."""
    number: int
    name: str
    match: bytes | None
    since: Instant
    """When the run's chain was created: an event published later is not missed."""
    registered_at: Instant
    """A number that is registered anew, as when a run is tried again, is another wait."""
    probe: bytes = b""
    """Leads to the events that it may match, past the others; empty: to all of the name. See `probes_of`."""
    may_get_older: bool = False
    """Nobody has looked for its events yet, and there are older ones than the event that has found it."""


class Trigger(msgspec.Struct, frozen=True):
    """A workflow that begins a run for each event that matches."""

    workflow: str
    version: str
    queue: str
    event: str
    match: bytes | None
    deadline: int | None = None
    retention: int | None = None
    """None is for ever."""


class Unmatched(msgspec.Struct, frozen=True):
    """Events and waits that nobody has looked at since they were committed, oldest first."""

    events: tuple[Event, ...]
    waits: tuple[EventWait, ...]
