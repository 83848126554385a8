"""Shapes of collections whose elements are typed.

Sets are written in the order of their encoded elements, dicts in their own order. A dict becomes a JSON object if each
of its keys is written as text (or each as an integer, where the annotation says so), else an array of pairs.
"""

from __future__ import annotations

from typing import Any

from holdfast.codec.bare import HUGE, is_ours, sort_plain
from holdfast.codec.printable import shown
from holdfast.codec.shapes import (
    Misfit,
    Mismatch,
    Shape,
    Unstorable,
    envelope,
    expected,
    expected_json,
    type_name,
)


def refuse_other_type(shape: Shape, cls: type, value: Any) -> Misfit:
    if isinstance(value, cls):
        return Unstorable(
            f"{type_name(type(value))} would come back as {cls.__name__}: convert it, or annotate with it"
        )
    return expected(shape, value)


def bare_items(shape: Shape, cls: type, plain: Any) -> list[Any]:
    """The items of a collection written without an annotation, as by a start that knows only the workflow's name."""
    tag = envelope(plain) if type(plain) is dict else None
    if tag == f"~{cls.__name__}" and type(plain[tag]) is list:
        items: list[Any] = plain[tag]
        return items
    raise expected_json(shape, plain)


class Items(Shape):
    """A list, deque, set, frozenset, or a tuple of any length."""

    __slots__ = ("_is_set", "_item", "type")

    def __init__(self, cls: type, item: Shape, name: str) -> None:
        self.type: Any = cls
        self.name = name
        self.kinds = frozenset({"list"})
        self._item = item
        self._is_set = issubclass(cls, (set, frozenset))

    def lower(self, value: Any) -> Any:
        if type(value) is not self.type:
            raise refuse_other_type(self, self.type, value)
        if getattr(value, "maxlen", None) is not None:
            raise Unstorable("a deque with a maxlen would come back without it: convert it to a list")
        lower = self._item.lower
        out: list[Any] = []
        try:
            for item in value:
                out.append(lower(item))
        except Misfit as misfit:
            raise misfit.under(f"[{len(out)}]") from None
        return sort_plain(out) if self._is_set else out

    def load(self, plain: Any) -> Any:
        if type(plain) is not list:
            plain = bare_items(self, self.type, plain)
        load = self._item.load
        out: list[Any] = []
        try:
            for item in plain:
                out.append(load(item))
        except Misfit as misfit:
            raise misfit.under(f"[{len(out)}]") from None
        if self.type is list:
            return out
        try:
            return self.type(out)
        except TypeError as error:
            raise Mismatch(f"expected {self.name}: {error}") from error


class Row(Shape):
    """A tuple of a fixed length."""

    __slots__ = ("_items",)

    def __init__(self, items: list[Shape], name: str) -> None:
        self.name = name
        self.kinds = frozenset({"list"})
        self._items = items

    def lower(self, value: Any) -> Any:
        if type(value) is not tuple:
            raise refuse_other_type(self, tuple, value)
        return self._each(value, "lower")

    def load(self, plain: Any) -> Any:
        if type(plain) is not list:
            plain = bare_items(self, tuple, plain)
        return tuple(self._each(plain, "load"))

    def _each(self, values: Any, deed: str) -> list[Any]:
        if len(values) != len(self._items):
            raise Mismatch(f"expected {self.name}, got {len(values)} items")
        out: list[Any] = []
        try:
            for item, value in zip(self._items, values, strict=True):
                out.append(getattr(item, deed)(value))
        except Misfit as misfit:
            raise misfit.under(f"[{len(out)}]") from None
        return out


class Dict(Shape):
    """A dict, an OrderedDict or a Counter."""

    __slots__ = ("_has_int_keys", "_key", "_value", "type")

    def __init__(self, cls: type, key: Shape, value: Shape, name: str) -> None:
        self.type: Any = cls
        self.name = name
        self.kinds = frozenset({"object"})
        self._key = key
        self._value = value
        self._has_int_keys = "int" in key.kinds and key.kinds <= {"int", "bool"}

    def lower(self, value: Any) -> Any:
        if type(value) is not self.type:
            raise refuse_other_type(self, self.type, value)
        pairs = [self._lower_pair(key, item) for key, item in value.items()]
        key_type = int if self._has_int_keys else str
        if all(type(key) is key_type for key, _ in pairs):
            try:
                out = {str(key): item for key, item in pairs}
            except ValueError:
                raise Unstorable(f"a key is {HUGE}") from None
            if len(out) == len(pairs) and envelope(out) is None:
                return out
        return {"~dict": [[key, item] for key, item in pairs]}

    def _lower_pair(self, key: Any, item: Any) -> tuple[Any, Any]:
        try:
            plain_key = self._key.lower(key)
        except Misfit as misfit:
            raise misfit.under(f".key({shown(key):.60})") from None
        try:
            return plain_key, self._value.lower(item)
        except Misfit as misfit:
            raise misfit.under(f"[{shown(key):.60}]") from None

    def load(self, plain: Any) -> Any:
        if type(plain) is not dict:
            raise expected_json(self, plain)
        tag = envelope(plain)
        if tag == "~dict":
            pairs = [self._load_pair(key, item) for key, item in pairs_in(plain[tag])]
        elif tag == f"~:{self.name}":  # the annotation was a union when the value was written
            return self.load(plain[tag])
        elif tag is not None and is_ours(tag):
            raise Mismatch(f"expected {self.name}, found {tag.lstrip('~:')}")
        elif self._has_int_keys:
            pairs = [self._load_pair(_integer(key), item) for key, item in plain.items()]
        else:
            pairs = [self._load_pair(key, item) for key, item in plain.items()]
        out = dict(pairs)
        return out if self.type is dict else self.type(out)

    def _load_pair(self, plain_key: Any, item: Any) -> tuple[Any, Any]:
        try:
            key = self._key.load(plain_key)
            hash(key)
        except Misfit as misfit:
            raise misfit.under(f".key({plain_key!r:.60})") from None
        except TypeError as error:
            raise Mismatch(f"a key can't be used as one: {error}") from None
        try:
            return key, self._value.load(item)
        except Misfit as misfit:
            raise misfit.under(f"[{plain_key!r:.60}]") from None


def pairs_in(content: Any) -> list[Any]:
    if type(content) is not list or not all(type(pair) is list and len(pair) == 2 for pair in content):
        raise Mismatch("expected an array of pairs")
    return content


def _integer(key: str) -> int | str:
    try:
        return int(key)
    except ValueError:
        return key
