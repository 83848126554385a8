"""What to give in place of a value that can't be stored as it is: the end of the sentence that refuses it."""

from __future__ import annotations

import io
from collections.abc import ItemsView, Iterator, KeysView, Sequence, ValuesView

_IN_PLACE_OF: tuple[tuple[tuple[type, ...], str | None], ...] = (
    ((complex,), "keep its parts as a tuple of floats"),
    # An open file is an iterator, too.
    ((io.IOBase,), None),
    ((Iterator, KeysView, ValuesView, ItemsView, Sequence), "convert it to a list"),
    ((BaseException,), "keep its text"),
)


def in_place_of(cls: object) -> str | None:
    """The advice for a class; None if nothing is known but that something else has to describe it."""
    if not isinstance(cls, type):
        return None
    if cls is memoryview:
        return "convert it to bytes"
    if hasattr(cls, "tolist"):  # numpy's arrays and scalars, and others that hold numbers
        return "convert it by its tolist()"
    if hasattr(cls, "keys") and hasattr(cls, "__getitem__"):  # what dict() takes: mappings, and rows of a database
        return "convert it to a dict"
    return next((advice for classes, advice in _IN_PLACE_OF if issubclass(cls, classes)), None)
