"""The mail of one body: messages that came and that no wait has taken yet.

Neither a message nor a wait ever changes: if a wait does not take a message now, it never will. So each pair is tried
at most once, however often the body is advanced: a new wait with the messages that are here, a new message with the
open waits. piles.py narrows this down to pairs that may fit, so thousands of waits and messages cost little.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import takewhile
from typing import Any

from holdfast.model import EventTaken, HookResumed, Message, Signal

from .marks import Matcher
from .piles import Pile
from .waits import Wait

ENTRIES: dict[str, Any] = {"signal": Signal, "event": EventTaken, "hook": HookResumed}
"""Which journal entry records that a wait has taken a message, by the message's kind."""


class Mailbox:
    """Messages in the order in which they were sent. Each keeps its place in this order; places count from 1."""

    __slots__ = ("_fitting", "_ids", "_known", "_last", "_matcher", "_messages", "_piles", "_untried")

    def __init__(self, matcher: Matcher, messages: Iterable[Message] = ()) -> None:
        self._matcher = matcher
        # An OrderedDict, for its first entry is often asked for: a dict walks over the gaps of all that were taken.
        self._messages: OrderedDict[int, Message] = OrderedDict()
        self._ids: set[int] = set()
        self._last = 0
        self._untried: deque[int] = deque()
        """Places of messages that no wait was tried with yet: they are newer than all others."""
        self._piles: dict[tuple[str, str | None], Pile[Wait]] = {}
        self._known = 0
        """The number of the newest wait that was put into a pile."""
        self._fitting: list[tuple[int, int, Wait]] = []
        """A heap of (place, wait number, wait): for each wait newer than some message, the first message it takes."""
        for message in messages:
            self.add(message)

    def add(self, message: Message) -> None:
        """Append a message, unless it is here already."""
        if message.id not in self._ids:
            self._last += 1
            self._messages[self._last] = message
            self._ids.add(message.id)
            self._untried.append(self._last)

    def take(self, waits: dict[int, Wait]) -> tuple[Message, Wait] | None:
        """Take out the oldest message that any of the waits takes. If several do, the first of them gets it.

        `waits` are ordered by number, and a new wait has a larger number than all before it. The owner reports waits
        that have ended by `forget`.
        """
        new = [*takewhile(lambda wait: wait.number > self._known, reversed(waits.values()))]
        for wait in reversed(new):
            self._known = wait.number
            self._pile(wait).add_wait(wait)
            self._look(wait, 0)
        while self._fitting:
            place, number, wait = self._fitting[0]
            is_open = waits.get(number) is wait
            if is_open and place in self._messages:
                return self._take_out(place), wait
            heappop(self._fitting)
            if is_open:
                self._look(wait, place)
        while self._untried:
            place = self._untried.popleft()
            message = self._messages[place]
            taker = self._pile(message).offer(place, message, self._matcher.takes)
            if taker is not None:
                return self._take_out(place), taker
        return None

    def forget(self, wait: Wait) -> None:
        """The wait has ended."""
        pile = self._piles.get((wait.kind, wait.name))
        if pile is not None:
            pile.remove_wait(wait)
            if pile.is_empty:
                del self._piles[wait.kind, wait.name]

    def _pile(self, one: Wait | Message) -> Pile[Wait]:
        pile = self._piles.get((one.kind, one.name))
        if pile is None:
            pile = self._piles[one.kind, one.name] = Pile(self._matcher.read)
        return pile

    def _look(self, wait: Wait, after: int) -> None:
        """Find the first message that the wait takes. Another wait may still get it, or take an older one first."""
        for place, message in self._pile(wait).mail_for(wait, after):
            if self._matcher.takes(wait, message):
                heappush(self._fitting, (place, wait.number, wait))
                return

    def _take_out(self, place: int) -> Message:
        message = self._messages.pop(place)
        self._ids.remove(message.id)
        self._pile(message).remove_message(place)
        return message

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages.values())

    def __len__(self) -> int:
        return len(self._messages)
