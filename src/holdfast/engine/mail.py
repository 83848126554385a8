"""The mail of one body: messages that came and that no wait has taken yet.

A message that a wait does not take now, that wait will never take: both stay what they are. So each of the two is tried
with the other once at most, however often the body is advanced meanwhile: a new wait with the messages that are here, a
new message with the waits. And only with those that may fit (piles.py), so thousands of both cost little.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import takewhile
from typing import Any

from holdfast.model import EventTaken, HookResumed, Message, Signal

from .marks import Marks
from .piles import Pile
from .waits import Wait

ENTRIES: dict[str, Any] = {"signal": Signal, "event": EventTaken, "hook": HookResumed}
"""What a message becomes when a wait takes it, by its kind."""


class Mailbox:
    """Messages in the order in which they were sent. Each has a place there, from 1 on, that it keeps."""

    __slots__ = ("_fitting", "_ids", "_known", "_last", "_marks", "_messages", "_piles", "_untried")

    def __init__(self, marks: Marks, messages: Iterable[Message] = ()) -> None:
        self._marks = marks
        # A dict would walk over the gaps of all that were taken each time that its first is asked for.
        self._messages: OrderedDict[int, Message] = OrderedDict()
        self._ids: set[int] = set()
        self._last = 0
        self._untried: deque[int] = deque()
        """Places of those that are newer than all that were tried with the waits."""
        self._piles: dict[tuple[str, str | None], Pile[Wait]] = {}
        self._known = 0
        """The number of the last wait that is in a pile, or was."""
        self._fitting: list[tuple[int, int, Wait]] = []
        """Of waits that came after messages: the place of the first that each takes, the wait's number, the wait."""
        for message in messages:
            self.add(message)

    def add(self, message: Message) -> None:
        """The last one; one that is here already stays where it is."""
        if message.id not in self._ids:
            self._last += 1
            self._messages[self._last] = message
            self._ids.add(message.id)
            self._untried.append(self._last)

    def take(self, waits: dict[int, Wait]) -> tuple[Message, Wait] | None:
        """Take out the oldest message that one of the waits takes. Of several waits that do, the first one gets it.

        The waits are in the order of their numbers, and new ones have larger numbers; for others see `forget`.
        """
        new = [*takewhile(lambda wait: wait.number > self._known, reversed(waits.values()))]
        for wait in reversed(new):
            self._known = wait.number
            self._pile(wait).expect(wait)
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
            taker = self._pile(message).offer(place, message, self._marks.takes)
            if taker is not None:
                return self._take_out(place), taker
        return None

    def forget(self, wait: Wait) -> None:
        """It is over."""
        pile = self._piles.get((wait.kind, wait.name))
        if pile is not None:
            pile.forget(wait)
            if pile.is_empty:
                del self._piles[wait.kind, wait.name]

    def _pile(self, one: Wait | Message) -> Pile[Wait]:
        pile = self._piles.get((one.kind, one.name))
        if pile is None:
            pile = self._piles[one.kind, one.name] = Pile(self._marks.read)
        return pile

    def _look(self, wait: Wait, after: int) -> None:
        """Among messages that none of the other waits takes, or an older one first."""
        for place, message in self._pile(wait).mail_for(wait, after):
            if self._marks.takes(wait, message):
                heappush(self._fitting, (place, wait.number, wait))
                return

    def _take_out(self, place: int) -> Message:
        message = self._messages.pop(place)
        self._ids.remove(message.id)
        self._pile(message).let_go(place)
        return message

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages.values())

    def __len__(self) -> int:
        return len(self._messages)
