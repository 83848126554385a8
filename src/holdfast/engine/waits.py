"""What a body waits for."""

from __future__ import annotations

from typing import Any

from holdfast.codec import ValueCodec
from holdfast.define import Reply
from holdfast.model import MadeHook, NewWait

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
