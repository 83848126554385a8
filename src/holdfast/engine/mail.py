"""The waits of one body, and its mail: messages that came and that no wait has taken yet.

A message that a wait does not take now, that wait will never take: both stay what they are. So each of the two is tried
with the other once, however often the body is advanced meanwhile, and thousands that nobody waits for cost little.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Any

from holdfast.codec import ValueCodec
from holdfast.define import Reply
from holdfast.model import EventTaken, HookResumed, MadeHook, Message, NewWait, Signal

ENTRIES: dict[str, Any] = {"signal": Signal, "event": EventTaken, "hook": HookResumed}
"""What a message becomes when a wait takes it, by its kind."""


class Wait:
    """A wait for a signal, an event or a hook's payload."""

    __slots__ = (
        "fitting",
        "hook",
        "is_registered",
        "is_stale",
        "kind",
        "made",
        "match",
        "name",
        "number",
        "reply",
        "row",
        "shape",
        "tried",
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
        self.tried = 0
        """The place in the mailbox up to which it was tried with what is there."""
        self.fitting = 0
        """The place of the first message that it takes, if there is one: see `Mailbox`."""

    @property
    def is_read(self) -> bool:
        """Whether the body has got what it waited for."""
        return self.reply.wait is None


class Mailbox:
    """Messages in the order in which they were sent. Each has a place there, from 1 on, that it keeps."""

    __slots__ = ("_ids", "_last", "_messages")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        # A dict would walk over the gaps of all that were taken each time that its first is asked for.
        self._messages: OrderedDict[int, Message] = OrderedDict()
        self._ids: set[int] = set()
        self._last = 0
        for message in messages:
            self.add(message)

    def add(self, message: Message) -> None:
        """The last one; one that is here already stays where it is."""
        if message.id not in self._ids:
            self._last += 1
            self._messages[self._last] = message
            self._ids.add(message.id)

    def take(self, waits: Iterable[Wait], takes: Callable[[Wait, Message], bool]) -> tuple[Message, Wait] | None:
        """Take out the oldest message that one of the waits takes. Of several waits that do, the first one gets it."""
        best: Wait | None = None
        for wait in waits:
            if wait.fitting not in self._messages and not self._finds(wait, takes):
                continue
            if best is None or wait.fitting < best.fitting:
                best = wait
        if best is None:
            return None
        message = self._messages.pop(best.fitting)
        self._ids.remove(message.id)
        return message, best

    def _finds(self, wait: Wait, takes: Callable[[Wait, Message], bool]) -> bool:
        """Look for the first message that the wait takes, behind those that it was tried with."""
        if wait.tried == self._last:
            return False
        newer: Iterable[tuple[int, Message]] = self._messages.items()
        if next(iter(self._messages), 0) <= wait.tried:
            # From the end: what it was tried with may be much, and what has come since is mostly little. But a wait to
            # which all of them are new takes mostly the first, and thousands may stand behind that.
            newer = reversed([*takewhile(lambda one: one[0] > wait.tried, reversed(self._messages.items()))])
        for place, message in newer:
            wait.tried = place
            if takes(wait, message):
                wait.fitting = place
                return True
        wait.tried = self._last
        return False

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages.values())

    def __len__(self) -> int:
        return len(self._messages)
