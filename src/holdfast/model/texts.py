"""Texts: which ones every store can keep, how many of something there are, and the word for what nobody gave."""

from __future__ import annotations

from enum import Enum
from typing import Final


class NotGiven(Enum):
    """Its one member stands where an option was left out and None would mean something."""

    NOT_GIVEN = "not given"

    def __repr__(self) -> str:
        return "not given"


NOT_GIVEN: Final = NotGiven.NOT_GIVEN
_READ = 200


def is_text(value: object) -> bool:
    """Whether it is text that every store can keep: without a NUL or a lone surrogate."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_name(value: object, most: int) -> bool:
    """Whether it is such text of 1 to `most` characters."""
    return is_text(value) and 1 <= len(str(value)) <= most


def quoted(value: object) -> str:
    """A value that was refused, as it was written, for a message: of one that nobody would read to its end, the
    beginning, and how long it is."""
    shown = repr(value)
    return shown if len(shown) <= _READ else f"{shown[: _READ // 2]}... ({len(shown):,} characters)"


def counted(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
