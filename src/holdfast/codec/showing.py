"""Stored values to be shown only: plain JSON as from `plain`, read without any class of the user's.

    codec.value(Shown).decode(stored)

A command or a server has not loaded the modules that define the values of the runs it shows. So an enum's member is
shown by its name, and a value that was written by an annotation as the JSON in the store. This never writes.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.codec.plain import plain, plain_key
from holdfast.codec.shapes import ANY_KIND, Shape, Unstorable, envelope, type_name
from holdfast.codec.texts import TEXTS_BY_TAG, UNREADABLE


class Shown:
    """An annotation for reading only: any stored value, as JSON."""


class ShownShape(Shape):
    """The shape of `Shown`."""

    __slots__ = ()

    def __init__(self) -> None:
        self.name = "any stored value"
        self.kinds = ANY_KIND

    def lower(self, value: Any) -> Any:
        raise Unstorable(f"{type_name(type(value))}: Shown is for reading")

    def load(self, plain: Any) -> Any:
        return _shown(plain)


_ARRAYS: Final = frozenset({"~tuple", "~set", "~frozenset"})


def _shown(stored: Any) -> Any:
    if type(stored) is list:
        return [_shown(item) for item in stored]
    if type(stored) is not dict:
        return stored
    tag = envelope(stored)
    if tag is None:
        return {name: _shown(item) for name, item in stored.items()}
    content = stored[tag]
    try:
        return _opened(tag, content)
    except UNREADABLE:
        # Not an envelope that we wrote: shown as the dict that it is.
        return {tag: _shown(content)}


def _opened(tag: str, content: Any) -> Any:
    if tag in _ARRAYS:
        return [_shown(item) for item in content]
    if tag == "~dict":
        return {plain_key(_shown(key)): _shown(item) for key, item in content}
    if tag == "~enum":
        _, member = content
        return _shown(member)
    if tag == "~float":
        return plain(float(content))
    text = TEXTS_BY_TAG.get(tag[1:])
    if text is not None:
        return plain(text.read(content))
    # "~:" marks the member of a union; the tag is left out.
    return _shown(content) if tag[:2] == "~:" else {tag: _shown(content)}
