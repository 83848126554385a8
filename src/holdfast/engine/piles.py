"""Waits and messages of one kind and name, indexed so that neither is searched for among all others.

A wait may have marks: values that it asks for, each with its place in a message. It can only take messages that have
one of these values there, or that can't be read here. A pile only rules out the rest; marks.py decides who takes what.
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
"""Stands for the content of a message that can't be read here: any value may be in it."""


class Marked(Protocol):
    """A wait, as far as a pile needs to know it."""

    number: int
    marks: tuple[Mark, ...]


W = TypeVar("W", bound=Marked)
One = TypeVar("One")
Numbered: TypeAlias = "OrderedDict[int, One]"
"""By number, in order. An OrderedDict, for its first entry is asked for often: a dict walks over the gaps before it."""


class _Field(Generic[W]):
    """The waits and messages that have a mark in one place, by the value there."""

    __slots__ = ("mail", "waits")

    def __init__(self) -> None:
        self.waits: dict[Any, Numbered[W]] = {}
        self.mail: dict[Any, Numbered[Message]] = {}


class Pile(Generic[W]):
    """Open waits, and messages that none of them takes. Waits and messages are numbered independently."""

    __slots__ = ("_fields", "_mail", "_read", "_waits")

    def __init__(self, read: Callable[[Message], Any]) -> None:
        self._read = read
        self._waits: Numbered[W] = OrderedDict()
        """Waits without marks."""
        self._mail: Numbered[Message] = OrderedDict()
        self._fields: dict[Place, _Field[W]] = {}
        """Kept when their last wait has gone: the next wait usually asks for the same field."""

    @property
    def is_empty(self) -> bool:
        return not self._mail and not self._waits and not any(field.waits for field in self._fields.values())

    def add_wait(self, wait: W) -> None:
        if not wait.marks:
            self._waits[wait.number] = wait
        for place, value in wait.marks:
            if place not in self._fields:
                field: _Field[W] = _Field()
                self._fields[place] = field
                for number, message in self._mail.items():
                    _put(field.mail, _value_in(self._read(message), place), number, message)
            _put(self._fields[place].waits, value, wait.number, wait)

    def remove_wait(self, wait: W) -> None:
        """Remove the wait, if it is here."""
        self._waits.pop(wait.number, None)
        for place, value in wait.marks:
            if place in self._fields:
                _drop(self._fields[place].waits, value, wait.number)

    def offer(self, number: int, message: Message, takes: Callable[[W, Message], bool]) -> W | None:
        """The first wait that takes the message. If none does, the message is kept."""
        values = self._values_of(message)
        found: list[Iterable[W]] = [self._waits.values()]
        for field, value in values:
            if value is UNREADABLE:
                found += [waits.values() for waits in field.waits.values()]
            elif value in field.waits:
                found.append(field.waits[value].values())
        for wait in found[0] if len(found) == 1 else merge(*found, key=attrgetter("number")):
            if takes(wait, message):
                return wait
        self._mail[number] = message
        for field, value in values:
            _put(field.mail, value, number, message)
        return None

    def remove_message(self, number: int) -> None:
        """Remove the message, if it is here."""
        message = self._mail.pop(number, None)
        if message is not None:
            for field, value in self._values_of(message):
                _drop(field.mail, value, number)

    def mail_for(self, wait: W, after: int) -> Iterator[tuple[int, Message]]:
        """Messages that the wait may take, in order, beginning behind the number `after`."""
        if not wait.marks:
            return _behind(self._mail, after)
        found = [
            field.mail[one]
            for field, value in ((self._fields[place], value) for place, value in wait.marks)
            for one in (value, UNREADABLE)
            if one in field.mail
        ]
        return merge(*(_behind(mail, after) for mail in found), key=itemgetter(0))

    def _values_of(self, message: Message) -> list[tuple[_Field[W], Any]]:
        if not self._fields:
            return []
        content = self._read(message)
        return [(field, _value_in(content, place)) for place, field in self._fields.items()]


def _value_in(content: Any, place: Place) -> Any:
    return UNREADABLE if content is UNREADABLE else value_at(content, place)


def _behind(mail: Numbered[Message], after: int) -> Iterator[tuple[int, Message]]:
    if next(iter(mail), 0) > after:
        return iter(mail.items())
    # From the end: many messages may have been looked at already, but few have come since.
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
