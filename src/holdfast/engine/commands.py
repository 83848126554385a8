"""What a body asked for, and what comes of one advance.

The collector does not look at these: there is one of each a step. What could make a circle through a command, the table
of those that are open, is emptied when its body is put away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.define import Reply, Step
from holdfast.model import Ended, Entry, Instant, Out, RunRetrying

from .shapes import Shapes


class Command(msgspec.Struct, eq=False, gc=False):
    """A step that was asked for and has not ended. `attempt` is the next one to execute."""

    key: str
    step: Step[Any, Any]
    shapes: Shapes
    args: bytes
    reply: Reply[Any]
    attempt: int = 1
    first_at: Instant | None = None
    """When the first attempt began, as far as the journal knows."""
    retry_at: Instant | None = None
    details: bytes | None = None
    """What the last attempt said of itself before it failed."""
    failed_at: Instant = 0
    failure: bytes = b""
    """What the last attempt failed with, as it is stored; empty if there was none."""

    def __repr__(self) -> str:
        return f"<command {self.key}, attempt {self.attempt}>"


class Advance(msgspec.Struct, gc=False):
    """What one advance took in and gave out.

    `entries` is the turn to commit; only when it is durable may `begin` be executed. `withdrawn` lists steps whose
    result nobody wants any more. At most one of `ended` and `retrying` is set. Taking turns goes on when a step ends,
    a message comes or `Execution.next_timer` is due.
    """

    entries: list[Entry]
    begin: list[Command]
    withdrawn: Sequence[Command] = ()
    ended: Ended | None = None
    retrying: RunRetrying | None = None
    consumed: int = 0
    """How many of the inputs were looked at: none behind the one that ended the body."""
    taken: tuple[int, ...] = ()
    """Ids of the messages that it took in."""
    traces: Sequence[tuple[Entry, str]] = ()
    """Entries made of messages whose senders are in a trace, each with that."""
    out: Out | None = None
    """What it gives out beside its entries."""
