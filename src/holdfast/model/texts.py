"""Texts: which ones every store can keep, how values are quoted and things counted, and the marker for a missing
option."""

from __future__ import annotations

from enum import Enum
from typing import Final


class NotGiven(Enum):
    """Its one member stands for an option that was not given, where None would mean something."""

    NOT_GIVEN = "not given"

    def __repr__(self) -> str:
        return "not given"


NOT_GIVEN: Final = NotGiven.NOT_GIVEN
_READ = 200


def is_text(value: object) -> bool:
    """Whether the value is text that every store can keep: without a NUL or a lone surrogate."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_name(value: object, most: int) -> bool:
    """Whether the value is such text, of 1 to `most` characters."""
    return is_text(value) and 1 <= len(str(value)) <= most


def quoted(value: object) -> str:
    """The repr of a value that was refused, for a message. Of a long one the beginning, and how long it is."""
    shown = repr(value)
    return shown if len(shown) <= _READ else f"{shown[: _READ // 2]}... ({len(shown):,} characters)"


def counted(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
