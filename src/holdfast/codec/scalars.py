"""Shapes of single values: JSON's own scalars, types written as text, enums, literals and secrets.

A subtype that type checkers accept (a bool or an IntEnum for an int, a datetime for a date, an int for a float) keeps
its own type: it is written as it would be without an annotation. Any other subclass is refused, because it would come
back as its base.
"""

from __future__ import annotations

from enum import Enum, Flag
from math import isfinite
from typing import Any
from uuid import UUID

from holdfast.codec import bare
from holdfast.codec.shapes import (
    KIND_OF,
    Mismatch,
    Secret,
    Shape,
    Unstorable,
    expected,
    expected_json,
    type_name,
)
from holdfast.codec.texts import TEXTS, UNREADABLE, Text, is_drivers_uuid


def lower_subtype(shape: Shape, base: type, value: Any) -> Any:
    """Lower a value that is not exactly of the annotated type so that it keeps its own type."""
    if not isinstance(value, base):
        raise expected(shape, value)
    if isinstance(value, Enum) or type(value) in TEXTS or type(value) is bool:
        return bare.lower(value)
    raise Unstorable(f"{type_name(type(value))} would come back as {shape.name}: convert it to {shape.name}")


def load_subtype(shape: Shape, base: type, plain: Any) -> Any:
    value = bare.load(plain) if type(plain) is dict else plain
    if not isinstance(value, base):
        raise expected_json(shape, plain)
    return value


class Plain(Shape):
    """None, bool, int or str: JSON's own."""

    __slots__ = ("type",)

    verbatim = True

    def __init__(self, cls: type) -> None:
        self.type = cls
        self.name = "None" if cls is type(None) else cls.__name__
        self.kinds = frozenset({"int", "bool"} if cls is int else {KIND_OF[cls]})

    def lower(self, value: Any) -> Any:
        if type(value) is self.type:
            return value
        return lower_subtype(self, self.type, value)

    def load(self, plain: Any) -> Any:
        if type(plain) is self.type:
            return plain
        return load_subtype(self, self.type, plain)


class Float(Shape):
    """A float, or an int that stays one, as PEP 484 allows."""

    __slots__ = ()

    verbatim = True

    def __init__(self) -> None:
        self.name = "float"
        self.kinds = frozenset({"float", "int", "bool"})

    def lower(self, value: Any) -> Any:
        if type(value) is float:
            return value if isfinite(value) else bare.special_float(value)
        if type(value) is int:
            return value
        return lower_subtype(self, int if isinstance(value, int) else float, value)

    def load(self, plain: Any) -> Any:
        if type(plain) is float or type(plain) is int:
            return plain
        value = bare.load(plain) if type(plain) is dict else plain
        if not isinstance(value, (float, int)):
            raise expected_json(self, plain)
        return value


class Written(Shape):
    """A type that is written as text."""

    __slots__ = ("_read", "_write", "type")

    def __init__(self, text: Text) -> None:
        self.type = text.type
        self.name = text.type.__name__
        self.kinds = frozenset({"str"})
        self._write = text.write
        self._read = text.read

    def lower(self, value: Any) -> Any:
        if type(value) is self.type or (self.type is UUID and is_drivers_uuid(type(value))):
            return self._write(value)
        return lower_subtype(self, self.type, value)

    def load(self, plain: Any) -> Any:
        if type(plain) is not str:
            return load_subtype(self, self.type, plain)
        try:
            return self._read(plain)
        except UNREADABLE as error:
            raise Mismatch(f"expected {self.name}, found {plain[:60]!r}: {error}") from error


class Member(Shape):
    """An enum's member: by value if all values are strings or all are integers, else by name.

    An enum without members is a base of others: their members are written with their own class.
    """

    __slots__ = ("_by_value", "type")

    def __init__(self, cls: type[Enum]) -> None:
        self.type = cls
        self.name = cls.__name__
        types = {type(member.value) for member in cls}
        self._by_value = issubclass(cls, Flag) or types == {str} or types == {int}
        self.kinds = frozenset({"int" if self._by_value and types != {str} else "str"} if types else {"object"})

    def lower(self, value: Any) -> Any:
        if type(value) is not self.type:
            return lower_subtype(self, self.type, value)
        return value.value if self._by_value else value.name

    def load(self, plain: Any) -> Any:
        try:
            if type(plain) is dict:
                return load_subtype(self, self.type, plain)
            return self.type(plain) if self._by_value else self.type[plain]
        except (ValueError, KeyError, TypeError):
            raise Mismatch(f"{plain!r} is no member of {self.name}") from None


class OneValue(Shape):
    """A Literal."""

    __slots__ = ("_values",)

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.name = f"one of {', '.join(map(repr, values))}"
        self._values = {(type(value), value) for value in values}
        self.kinds = frozenset(KIND_OF.get(type(value), "object") for value in values)

    def lower(self, value: Any) -> Any:
        if not self._holds(value):
            raise Mismatch(f"expected {self.name}, got {value!r:.60}")
        return bare.lower(value)

    def load(self, plain: Any) -> Any:
        value = bare.load(plain)
        if not self._holds(value):
            raise Mismatch(f"expected {self.name}, found {value!r:.60}")
        return value

    def _holds(self, value: Any) -> bool:
        try:
            return (type(value), value) in self._values
        except TypeError:
            return False


class Hidden(Shape):
    """pydantic's SecretStr, SecretBytes and Secret: stored only if the chain encrypts."""

    __slots__ = ("_inner", "_is_encrypted", "type")

    def __init__(self, cls: type, inner: Shape, is_encrypted: bool) -> None:
        self.type: Any = cls
        self.name = cls.__name__
        self.kinds = inner.kinds
        self._inner = inner
        self._is_encrypted = is_encrypted

    def lower(self, value: Any) -> Any:
        if type(value) is not self.type:
            raise expected(self, value)
        if not self._is_encrypted:
            raise Secret(
                f"{self.name} is a secret: give the codec a chain that encrypts (AesGcm), or keep it in a resource"
            )
        return self._inner.lower(value.get_secret_value())

    def load(self, plain: Any) -> Any:
        return self.type(self._inner.load(plain))


PLAIN: dict[object, Shape] = {cls: Plain(cls) for cls in (type(None), bool, int, str)}
PLAIN[None] = PLAIN[type(None)]
PLAIN[float] = Float()
