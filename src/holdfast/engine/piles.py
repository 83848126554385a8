"""Waits and messages of one kind and name, sorted so that neither is looked for among all of the others.

A wait may have marks: values that it asks for, each with its place in a message. Only what has one of them there may
be for it, or what nobody here can read. Whether it is, is decided elsewhere (marks.py): this leaves out what is not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import takewhile
from operator import attrgetter, itemgetter
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from holdfast.model import NOWHERE, Message, Place, value_at

Mark: TypeAlias = tuple[Place, Any]
UNREADABLE: Any = object()
"""What is in a message that nobody here can read, and so any value that it may have."""


class Marked(Protocol):
    """A wait, as far as it is sorted."""

    number: int
    marks: tuple[Mark, ...]


W = TypeVar("W", bound=Marked)
One = TypeVar("One")
Numbered: TypeAlias = "OrderedDict[int, One]"
"""By number, in order. A dict would walk over the gaps of all that are gone each time that its first is asked for."""


class _Corner(Generic[W]):
    """What has a mark in one place, by its value there."""

    __slots__ = ("mail", "waits")

    def __init__(self) -> None:
        self.waits: dict[Any, Numbered[W]] = {}
        self.mail: dict[Any, Numbered[Message]] = {}


class Pile(Generic[W]):
    """Waits, and messages that none of them takes; each of the two has numbers of its own."""

    __slots__ = ("_corners", "_mail", "_read", "_waits")

    def __init__(self, read: Callable[[Message], Any]) -> None:
        self._read = read
        self._waits: Numbered[W] = OrderedDict()
        """Those without marks."""
        self._mail: Numbered[Message] = OrderedDict()
        self._corners: dict[Place, _Corner[W]] = {}
        """They stay when the last of their waits is gone: another one mostly asks for the same field."""

    @property
    def is_empty(self) -> bool:
        return not self._mail and not self._waits and not any(corner.waits for corner in self._corners.values())

    def expect(self, wait: W) -> None:
        if not wait.marks:
            self._waits[wait.number] = wait
        for place, value in wait.marks:
            if place not in self._corners:
                corner: _Corner[W] = _Corner()
                self._corners[place] = corner
                for number, message in self._mail.items():
                    _put(corner.mail, _value_in(self._read(message), place), number, message)
            _put(self._corners[place].waits, value, wait.number, wait)

    def forget(self, wait: W) -> None:
        """It waits no longer, if it ever did."""
        self._waits.pop(wait.number, None)
        for place, value in wait.marks:
            if place in self._corners:
                _drop(self._corners[place].waits, value, wait.number)

    def offer(self, number: int, message: Message, takes: Callable[[W, Message], bool]) -> W | None:
        """The first of the waits that takes it. If none does it is kept."""
        values = self._values_of(message)
        found: list[Iterable[W]] = [self._waits.values()]
        for corner, value in values:
            if value is UNREADABLE:
                found += [waits.values() for waits in corner.waits.values()]
            elif value in corner.waits:
                found.append(corner.waits[value].values())
        for wait in found[0] if len(found) == 1 else merge(*found, key=attrgetter("number")):
            if takes(wait, message):
                return wait
        self._mail[number] = message
        for corner, value in values:
            _put(corner.mail, value, number, message)
        return None

    def let_go(self, number: int) -> None:
        """It was taken, if it is here at all."""
        message = self._mail.pop(number, None)
        if message is not None:
            for corner, value in self._values_of(message):
                _drop(corner.mail, value, number)

    def mail_for(self, wait: W, after: int) -> Iterator[tuple[int, Message]]:
        """What it may take, behind a number, in order."""
        if not wait.marks:
            return _behind(self._mail, after)
        found = [
            corner.mail[one]
            for corner, value in ((self._corners[place], value) for place, value in wait.marks)
            for one in (value, UNREADABLE)
            if one in corner.mail
        ]
        return merge(*(_behind(mail, after) for mail in found), key=itemgetter(0))

    def _values_of(self, message: Message) -> list[tuple[_Corner[W], Any]]:
        if not self._corners:
            return []
        content = self._read(message)
        return [(corner, _value_in(content, place)) for place, corner in self._corners.items()]


def _value_in(content: Any, place: Place) -> Any:
    return UNREADABLE if content is UNREADABLE else value_at(content, place)


def _behind(mail: Numbered[Message], after: int) -> Iterator[tuple[int, Message]]:
    if next(iter(mail), 0) > after:
        return iter(mail.items())
    # From the end: what was looked at may be much, and what is behind it is mostly little.
    return reversed([*takewhile(lambda one: one[0] > after, reversed(mail.items()))])


def _put(numbered: dict[Any, Numbered[One]], value: Any, number: int, one: One) -> None:
    if value is not NOWHERE:
        numbered.setdefault(value, OrderedDict())[number] = one


def _drop(numbered: dict[Any, Numbered[Any]], value: Any, number: int) -> None:
    found = numbered.get(value)
    if found is not None:
        found.pop(number, None)
        if not found:
            del numbered[value]
