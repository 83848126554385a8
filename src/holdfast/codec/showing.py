"""Stored values for whoever only shows them: plain JSON, as `plain` gives it, without a class of anybody's.

    codec.value(Shown).decode(stored)

A command or a server has not loaded the modules of those whose runs it shows. An enum is then its member's name, and a
value that was written by an annotation is the JSON that it was written as. Nothing is ever written this way.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.codec.plain import plain, plain_key
from holdfast.codec.shapes import ANY_KIND, Shape, Unstorable, envelope, type_name
from holdfast.codec.texts import TEXTS_BY_TAG, UNREADABLE


class Shown:
    """An annotation to read by, never to write by: any stored value, as JSON."""


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
        return [_shown(one) for one in stored]
    if type(stored) is not dict:
        return stored
    tag = envelope(stored)
    if tag is None:
        return {name: _shown(one) for name, one in stored.items()}
    content = stored[tag]
    try:
        return _opened(tag, content)
    except UNREADABLE:
        # Not as we write it: whatever it is, it is shown.
        return {tag: _shown(content)}


def _opened(tag: str, content: Any) -> Any:
    if tag in _ARRAYS:
        return [_shown(one) for one in content]
    if tag == "~dict":
        return {plain_key(_shown(key)): _shown(one) for key, one in content}
    if tag == "~enum":
        _, member = content
        return _shown(member)
    if tag == "~float":
        return plain(float(content))
    text = TEXTS_BY_TAG.get(tag[1:])
    if text is not None:
        return plain(text.read(content))
    # By an annotation that named the one of several classes that it was.
    return _shown(content) if tag[:2] == "~:" else {tag: _shown(content)}
