"""Messages: what waits in a run's inbox until a turn takes it into the journal."""

from __future__ import annotations

import msgspec

from .durations import Instant


class Message(msgspec.Struct, frozen=True, gc=False):
    """One inbox row."""

    id: int
    run_id: str
    kind: str
    """"cancel" here; signals, events, hook payloads and child ends come the same way."""
    name: str | None
    payload: bytes
    sent_at: Instant
