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
        """What the store is to know of it; None: nothing."""
        self.is_registered = False
        self.is_stale = False
        """The store may know it otherwise than it is."""
        self.hook = 0
        """Of a hook: which of the run's it is."""
        self.made: MadeHook | None = None
        """Of a hook: what its token is drawn from, for the runs that go on from this one."""
        self.marks: tuple[Mark, ...] = ()
        """What a message has that it takes, or one of these: see marks.py."""

    @property
    def is_read(self) -> bool:
        """Whether the body has got what it waited for."""
        return self.reply.wait is None
