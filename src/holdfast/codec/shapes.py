"""A shape is one annotation, compiled to a pair of functions between values and plain JSON data.

Here are the base class and the errors that shapes raise to each other; each family of shapes has its own file. A shape
never touches bytes: `values` and `arguments` do.

Invariant: `load(lower(value))` is equal to `value` and of the same type, or `lower` raises. Types alone can't prove
this where user code runs to rebuild the value. The builder reports such a shape as unproven, and the value is read back
once before it is stored.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import msgspec

encode_json = msgspec.json.Encoder().encode
decode_json = msgspec.json.Decoder().decode

AWAIT = "await it first; a lambda or a decorator's wrapper that returned it must be an `async def` instead"
"""The advice for a coroutine or a future in the place of a value."""
ANY_KIND = frozenset({"null", "bool", "int", "float", "str", "list", "object"})
KIND_OF = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str", list: "list", dict: "object"}


class Misfit(Exception):
    """A value that a shape can't take. Each enclosing shape adds its step to the path while the error travels up."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.steps: list[str] = []

    def under(self, step: str) -> Misfit:
        self.steps.append(step)
        return self

    @property
    def path(self) -> str:
        return "".join(reversed(self.steps))


class Mismatch(Misfit):
    """The value does not fit the annotation."""


class Lacking(Mismatch):
    """This code lacks what it takes to read the value, such as a class that the annotation names. Other code may have
    it, so nobody may say that the value doesn't fit."""


class Unstorable(Misfit):
    """The value may fit the annotation, but JSON can't hold it. A pickle might."""


class Secret(Misfit):
    """The value must not be stored in the clear."""


class Shape:
    """One compiled annotation."""

    __slots__ = ("kinds", "name")

    kinds: frozenset[str]
    name: str

    # True: `lower` returns the value itself, so any other verbatim shape of a union may read it back.
    verbatim = False

    def lower(self, value: Any) -> Any:
        raise NotImplementedError

    def load(self, plain: Any) -> Any:
        raise NotImplementedError


class Opaque(Shape):
    """An annotation by which no value can be stored, with the reason.

    Such a value may be pickled, where that is allowed. Then what is no pickle does not fit, unless the annotation could
    not be resolved.
    """

    __slots__ = ("_error", "reason")

    def __init__(self, name: str, reason: str, error: type[Mismatch] = Lacking) -> None:
        self.name = name
        self.kinds = ANY_KIND
        self.reason = reason
        self._error = error

    def lower(self, value: Any) -> Any:
        raise Unstorable(f"{type_name(type(value))}: {self.reason}")

    def load(self, plain: Any) -> Any:
        raise self._error(self.reason)


class Deferred(Shape):
    """Stands in for a shape that is still being built, so that a type may refer to itself."""

    __slots__ = ("target",)

    def __init__(self, name: str) -> None:
        self.name = name
        self.kinds = ANY_KIND
        self.target: Shape | None = None

    def lower(self, value: Any) -> Any:
        assert self.target is not None
        return self.target.lower(value)

    def load(self, plain: Any) -> Any:
        assert self.target is not None
        return self.target.load(plain)


def type_name(cls: object) -> str:
    """A type's name for error messages: `int`, `_thread.lock`, `shop.orders.Order`."""
    module = getattr(cls, "__module__", "")
    name = getattr(cls, "__qualname__", None) or str(cls)
    return name if module in ("builtins", "") else f"{module}.{name}"


def kind_name(plain: object) -> str:
    """JSON's word for the kind of a decoded value."""
    return {"null": "null", "bool": "a boolean", "int": "an integer", "float": "a number", "str": "a string",
            "list": "an array", "object": "an object"}[KIND_OF[type(plain)]]  # fmt: skip


def expected(shape: Shape, value: object) -> Mismatch:
    advice = f": {AWAIT}" if isinstance(value, Awaitable) else ""
    return Mismatch(f"expected {shape.name}, got {type_name(type(value))}{advice}")


def expected_json(shape: Shape, plain: object) -> Mismatch:
    return Mismatch(f"expected {shape.name}, found {kind_name(plain)}")


def envelope(plain: Any) -> str | None:
    """The tag of an envelope, which is an object whose only key begins with a tilde; None for anything else."""
    if type(plain) is dict and len(plain) == 1:
        (key,) = plain
        if key[:1] == "~":
            return str(key)
    return None
