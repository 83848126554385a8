"""What a run has asked for and not got, for readers: `details` of an explanation hold it. Times are aware datetimes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.model import WaitRecord, moment_of


@dataclass(frozen=True, slots=True)
class OpenStep:
    """A step that was asked for and has no result: what `details["steps"]` holds."""

    key: str
    attempt: int
    since: datetime | None
    retry_at: datetime | None = None
    error: str | None = None


UNNAMED = "a message that only its body can name, such as a signal without type="
"""A wait that nothing is checked for: it is registered nowhere."""


@dataclass(frozen=True, slots=True)
class OpenWait:
    """A signal, an event or a hook that is waited for: what `details["waits"]` holds."""

    kind: str
    name: str
    match: Any
    """What a payload must hold; None: nothing."""
    schema: dict[str, Any] | None
    """The JSON schema that a payload must fit; None: any payload will do."""
    since: datetime
    expires_at: datetime | None


def open_wait(wait: WaitRecord) -> OpenWait:
    """A stored wait, for readers."""
    return OpenWait(
        kind=wait.kind,
        name=wait.name,
        match=None if wait.match is None else json.loads(wait.match),
        schema=None if wait.schema is None else json.loads(wait.schema),
        since=moment_of(wait.registered_at),
        expires_at=None if wait.expires_at is None else moment_of(wait.expires_at),
    )
