"""The steps that a body asked for, and the outcome of one advance.

These records are hidden from the collector, since every step makes some. The only circle through a command leads by the
table of open commands, which is emptied when the body is put away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.define import Reply, Step
from holdfast.model import Ended, Entry, Instant, Out, RunRetrying

from .shapes import Shapes


class Command(msgspec.Struct, eq=False, gc=False):
    """A step that was asked for and has not ended. `attempt` is the number of the next attempt."""

    key: str
    step: Step[Any, Any]
    shapes: Shapes
    args: bytes
    reply: Reply[Any]
    attempt: int = 1
    first_at: Instant | None = None
    """When the first attempt began, if the journal says so."""
    retry_at: Instant | None = None
    details: bytes | None = None
    """The heartbeat details of the last attempt, if it failed."""
    failed_at: Instant = 0
    failure: bytes = b""
    """The error of the last attempt, as it is stored; empty if there was none."""

    def __repr__(self) -> str:
        return f"<command {self.key}, attempt {self.attempt}>"


class Advance(msgspec.Struct, gc=False):
    """What one advance took in and gave out.

    `entries` is the turn to commit; only when it is durable may the steps in `begin` be executed. `withdrawn` lists
    steps whose result nobody wants any more. At most one of `ended` and `retrying` is set. The next turn is due when a
    step ends, when a message comes, or at `Execution.next_timer`.
    """

    entries: list[Entry]
    begin: list[Command]
    withdrawn: Sequence[Command] = ()
    ended: Ended | None = None
    retrying: RunRetrying | None = None
    consumed: int = 0
    """How many of the inputs were looked at. Those behind the one that ended the body were not."""
    taken: tuple[int, ...] = ()
    """Ids of the messages that it took in, to be deleted with the turn."""
    traces: Sequence[tuple[Entry, str]] = ()
    """Entries made from messages that carried a trace, each with that trace."""
    out: Out | None = None
    """What the turn gives out beside its entries."""
