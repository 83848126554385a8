"""What a body waits for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.codec import ValueCodec
from holdfast.define import Reply
from holdfast.model import FIRST_HOOK, MadeHook, NewWait, WaitRecord

from .piles import Mark


class Wait:
    """A wait for a signal, an event or a hook's payload."""

    __slots__ = (
        "hook",
        "is_registered",
        "is_stale",
        "kind",
        "made",
        "marks",
        "match",
        "name",
        "number",
        "reply",
        "row",
        "shape",
    )

    def __init__(
        self, number: int, kind: str, name: str, match: Any, shape: ValueCodec, reply: Reply[Any], row: NewWait | None
    ) -> None:
        self.number = number
        self.kind = kind
        self.name = name
        self.match = match
        self.shape = shape
        self.reply = reply
        self.row = row
        """What the store is told of this wait; None: nothing."""
        self.is_registered = False
        self.is_stale = False
        """The store's row may differ from `row`."""
        self.hook = 0
        """For a hook: its place among the hooks of the run, from 1 on."""
        self.made: MadeHook | None = None
        """For a hook: what its token is drawn from. Runs that go on from this one take it over."""
        self.marks: tuple[Mark, ...] = ()
        """A message that this wait takes has at least one of these (marks.py)."""

    @property
    def is_read(self) -> bool:
        """Whether the body has read the result."""
        return self.reply.wait is None


def compare(waits: Iterable[Wait], rows: Iterable[WaitRecord]) -> tuple[bool, list[int]]:
    """Mark those waits of a rebuilt body whose rows in the store are missing or say something else.

    Returns whether any is missing, and the numbers of rows that belong to no wait.
    """
    stored, is_any_missing = {row.number: row for row in rows}, False
    for wait in waits:
        if wait.row is None:
            continue
        row = stored.pop(wait.row.number, None)
        if row is not None:
            wait.is_stale = _told(row) != _told(wait.row)
        elif wait.kind != "hook":
            # A hook that has no row was resumed, or another live run has given its token out: it is not opened again.
            wait.is_registered, is_any_missing = False, True
    # Hooks that the body has not made again are still open: somebody may have their tokens.
    return is_any_missing, [number for number in stored if number < FIRST_HOOK]


def _told(wait: NewWait | WaitRecord) -> tuple[object, ...]:
    """What the store is told of a wait, as far as the code decides it and it can be read back."""
    return wait.kind, wait.name, wait.match, wait.schema, wait.expires_at
