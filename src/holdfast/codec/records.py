"""Shapes of types with named fields: dataclasses, attrs classes, msgspec Structs, NamedTuples, TypedDicts.

A record is written as a JSON object by field name, or as pairs if the object would look like an envelope. On reading,
unknown fields are ignored and missing ones take their defaults. The record is rebuilt through its own `__init__`, so
that derived attributes exist and its checks run. If code of the class's own may run then, each stored field is put back
as it was, so that a converter, an `__init__` or a `__post_init__` that is not idempotent changes nothing: neither by
setting a field to something else, nor in the list that it holds.

An instance of a subclass is refused: the subclass's fields would be lost.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Container, Iterable
from functools import cached_property
from typing import Any

import msgspec

from holdfast.codec.containers import pairs_in, refuse_other_type
from holdfast.codec.copies import copied, unchanged
from holdfast.codec.fields import MISSING, Field
from holdfast.codec.shapes import Misfit, Mismatch, Secret, Shape, Unstorable, envelope, expected_json, type_name
from holdfast.codec.texts import TEXTS

_COLLECTIONS = (dict, list, tuple, set, frozenset, deque)
_WITH_CONTENT = (*_COLLECTIONS, str, int, float, complex, *TEXTS)
"""Bases whose instances hold something beside attributes."""


class Record(Shape):
    """An instance with fields."""

    __slots__ = (
        "_content_of", "_fields", "_hides", "_is_restored", "_is_struct", "_keys", "_make", "_names", "_put",
        "_rebuilds_others", "type",
    )  # fmt: skip  # a name a line would be a page

    def __init__(
        self,
        cls: type,
        name: str,
        *,
        is_restored: bool,
        rebuilds_others: bool,
        make: Callable[..., Any] | None,
        hides: str,
    ) -> None:
        """`make` is None if `__init__` does not take exactly the fields; `hides` names a field excluded by pydantic.

        Attributes that are no fields come back only if the class's own code runs and `rebuilds_others`. Otherwise they
        are refused.
        """
        self.type: Any = cls
        self.name = name
        self.kinds = frozenset({"object"})
        self._fields: list[Field] = []
        self._hides = hides
        self._is_restored = is_restored
        self._make = make
        self._rebuilds_others = rebuilds_others
        self._content_of: Any = next((kind for kind in _WITH_CONTENT if issubclass(cls, kind)), None)
        self._names: set[str] = set()
        self._keys: set[str] = set()
        self._is_struct = issubclass(cls, msgspec.Struct)
        self._put: Callable[[Any, str, Any], None] = (
            msgspec.structs.force_setattr if self._is_struct else object.__setattr__
        )

    def set_fields(self, fields: list[Field]) -> None:
        """Called after construction, so that a field may refer to the record itself."""
        self._fields = fields
        self._names = {field.name for field in fields}
        self._keys = {field.key for field in fields}

    def lower(self, value: Any) -> Any:
        if type(value) is not self.type:
            raise refuse_subclass(self, self.type, value)
        if self._hides:
            raise excluded(self._hides)
        out = {}
        name = ""
        try:
            for name, key, _, shape, default, _ in self._fields:
                item = getattr(value, name)
                if item is not msgspec.UNSET or default is not msgspec.UNSET:
                    out[key] = shape.lower(item)
        except Misfit as misfit:
            raise misfit.under("." + name) from None
        except AttributeError:
            raise Unstorable(f"{self.name} has no value for its field {name}: it was never set") from None
        # A Struct's fields are not in its `__dict__`.
        in_dict = 0 if self._is_struct else len(out)
        if not self._rebuilds_others and len(getattr(value, "__dict__", ())) > in_dict:
            self._refuse_others(value)
        if self._content_of is not None:
            self._refuse_lost_content(value, escaped(out))
        return escaped(out)

    def load(self, plain: Any) -> Any:
        plain = unwrapped(self, plain, self._keys)
        arguments: dict[str, Any] = {}
        stored: list[tuple[str, Any, Any]] = []
        for field in self._fields:
            if field.key not in plain:
                if field.default is MISSING and field.factory is MISSING and field.argument is not None:
                    raise Mismatch(f"{self.name} needs {field.name}, which was not stored: give it a default")
                if field.argument is not None and field.shares_default:
                    arguments[field.argument] = field.own_default()
                continue
            try:
                item = field.shape.load(plain[field.key])
            except Misfit as misfit:
                raise misfit.under("." + field.name) from None
            if field.argument is not None:
                arguments[field.argument] = item
            if self._is_restored or field.argument is None:
                stored.append((field.name, item, item if field.argument is None else copied(item)))
        if self._make is None:
            return self._assemble(stored)
        try:
            value = self._make(**arguments)
        except Exception as error:
            raise Mismatch(f"{self.name} refused its stored fields: {type_name(type(error))}: {error}") from error
        for name, item, copy in stored:
            self._put(value, name, unchanged(item, copy))
        return value

    def _assemble(self, stored: list[tuple[str, Any, Any]]) -> Any:
        try:
            value = self.type.__new__(self.type)
        except TypeError as error:
            raise Mismatch(f"{self.name} can't be made without arguments: {error}") from error
        for field in self._fields:
            if field.default is not MISSING:
                self._put(value, field.name, field.own_default())
            elif field.factory is not MISSING:
                self._put(value, field.name, field.factory())
        for name, item, _ in stored:
            self._put(value, name, item)
        return value

    def _refuse_lost_content(self, value: Any, plain: Any) -> None:
        """Refuse a str, dict or the like that holds something, unless its own code makes the same of its fields."""
        kind = self._content_of
        if hasattr(kind, "__len__") and not kind.__len__(value):
            return
        with contextlib.suppress(Misfit):
            if kind.__eq__(self.load(plain), value) is True:
                return
        what, them = ("items", "them") if kind in _COLLECTIONS else ("content", "it")
        raise Unstorable(f"{self.name} is a {kind.__name__}, whose {what} would be lost: keep {them} in a field")

    def _refuse_others(self, value: Any) -> None:
        for name in value.__dict__:
            # Names that begin with an underscore and cached properties are the class's own business.
            if (
                name not in self._names
                and name[:1] != "_"
                and not isinstance(getattr(self.type, name, None), cached_property)
            ):
                raise Unstorable(f"{self.name} has {name}, which is none of its fields: declare it as one")


class NamedRow(Shape):
    """A NamedTuple."""

    __slots__ = ("_fields", "type")

    def __init__(self, cls: type, name: str) -> None:
        self.type: Any = cls
        self.name = name
        self.kinds = frozenset({"object"})
        self._fields: list[Field] = []

    def set_fields(self, fields: list[Field]) -> None:
        self._fields = fields

    def lower(self, value: Any) -> Any:
        if type(value) is not self.type:
            raise refuse_subclass(self, self.type, value)
        return _lower_entries(self._fields, zip((field.name for field in self._fields), value, strict=True))

    def load(self, plain: Any) -> Any:
        plain = unwrapped(self, plain)
        values = []
        for field in self._fields:
            if field.key in plain:
                try:
                    values.append(field.shape.load(plain[field.key]))
                except Misfit as misfit:
                    raise misfit.under("." + field.name) from None
            elif field.default is MISSING:
                raise Mismatch(f"{self.name} needs {field.name}, which was not stored: give it a default")
            else:
                values.append(field.own_default())
        return tuple.__new__(self.type, values)


class Keyed(Shape):
    """A TypedDict. An unknown key is refused when written, because it would be lost when read."""

    __slots__ = ("_fields", "_required")

    def __init__(self, name: str, required: Iterable[str]) -> None:
        self.name = name
        self.kinds = frozenset({"object"})
        self._required = frozenset(required)
        self._fields: dict[str, Field] = {}

    def set_fields(self, fields: list[Field]) -> None:
        self._fields = {field.name: field for field in fields}

    def lower(self, value: Any) -> Any:
        if type(value) is not dict:
            raise refuse_other_type(self, dict, value)
        for key in value:
            if key not in self._fields:
                raise Mismatch(f"{self.name} has no key {key!r:.60}")
        self._check_required(value)
        return escaped(_lower_entries(list(self._fields.values()), value.items()))

    def load(self, plain: Any) -> Any:
        plain = unwrapped(self, plain, self._fields)
        self._check_required(plain)
        out = {}
        for key, item in plain.items():
            if key in self._fields:
                try:
                    out[key] = self._fields[key].shape.load(item)
                except Misfit as misfit:
                    raise misfit.under(f"[{key!r}]") from None
        return out

    def _check_required(self, value: dict[str, Any]) -> None:
        for key in sorted(self._required):
            if key not in value:
                raise Mismatch(f"{self.name} needs the key {key!r}")


def _lower_entries(fields: list[Field], entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    shapes = {field.name: field.shape for field in fields}
    out = {}
    for name, item in entries:
        try:
            out[name] = shapes[name].lower(item)
        except Misfit as misfit:
            raise misfit.under("." + name) from None
    return out


def escaped(out: dict[str, Any]) -> dict[str, Any]:
    """The object as it is, or as pairs if it would be read as an envelope."""
    return out if envelope(out) is None else {"~dict": [[key, out[key]] for key in out]}


def unwrapped(shape: Shape, plain: Any, keys: Container[str] = ()) -> dict[str, Any]:
    """The object to read a record from, taken out of its envelope: pairs, or a union's tag if there was a union.

    One of the record's own `keys` is no tag: earlier versions wrote such an object without an envelope.
    """
    if type(plain) is not dict:
        raise expected_json(shape, plain)
    if len(plain) == 1:
        ((key, item),) = plain.items()
        if key == f"~:{shape.name}":
            return unwrapped(shape, item, keys)
        if key == "~dict" and all(type(name) is str for name, _ in pairs_in(item)):
            return dict(item)
        if key[:1] == "~" and key not in keys:
            raise Mismatch(f"expected {shape.name}, found {key.lstrip('~:')}")
    return plain


def refuse_subclass(shape: Shape, cls: type, value: Any) -> Misfit:
    if isinstance(value, cls):
        name = type(value).__qualname__
        return Unstorable(
            f"{type_name(type(value))} is a subclass of {shape.name}, whose own fields would be lost: annotate with "
            f"{name}, or with a union that has it"
        )
    return refuse_other_type(shape, cls, value)


def excluded(name: str) -> Secret:
    return Secret(
        f"its field {name} is excluded from serialisation: give the codec a chain that encrypts (AesGcm), "
        f"or keep it in a resource"
    )
