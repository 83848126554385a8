"""What a shape is: one annotation, compiled to a pair of functions between values and plain JSON data.

Here live the base class and the errors that shapes raise among themselves; each family of shapes has its own
file. A shape never touches bytes: `values` and `arguments` do that.

Invariant: `load(lower(value))` is equal to `value` and of the same type, or `lower` raises. Shapes that can't
know this from the types alone (because user code runs when the value is rebuilt) are reported as unproven by the
builder, and the value is read back once before it is stored.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import msgspec

encode_json = msgspec.json.Encoder().encode
decode_json = msgspec.json.Decoder().decode

AWAIT = "await it first; if a decorator's wrapper returned it, make that wrapper an `async def`"
"""What to do about a coroutine or a future in the place of a value."""
ANY_KIND = frozenset({"null", "bool", "int", "float", "str", "list", "object"})
KIND_OF = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str", list: "list", dict: "object"}


class Misfit(Exception):
    """A value that a shape can't take. The path grows from the inside out while it travels up."""

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


class Unstorable(Misfit):
    """The value may fit the annotation, but JSON can't hold it. Pickle might."""


class Secret(Misfit):
    """The value must not be stored in the clear."""


class Shape:
    """One compiled annotation."""

    __slots__ = ("kinds", "name")

    kinds: frozenset[str]
    name: str

    # What `lower` returns is the value itself, so it doesn't matter which of two such shapes reads it back.
    verbatim = False

    def lower(self, value: Any) -> Any:
        raise NotImplementedError

    def load(self, plain: Any) -> Any:
        raise NotImplementedError


class Opaque(Shape):
    """An annotation that nothing can be stored by, with the reason."""

    __slots__ = ("reason",)

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.kinds = ANY_KIND
        self.reason = reason

    def lower(self, value: Any) -> Any:
        raise Unstorable(f"{type_name(type(value))}: {self.reason}")

    def load(self, plain: Any) -> Any:
        raise Mismatch(self.reason)


class Deferred(Shape):
    """Stands in for a shape that is still being built, where a type refers to itself."""

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
    """A type as a reader knows it: `int`, `_thread.lock`, `shop.orders.Order`."""
    module = getattr(cls, "__module__", "")
    name = getattr(cls, "__qualname__", None) or str(cls)
    return name if module in ("builtins", "") else f"{module}.{name}"


def kind_name(plain: object) -> str:
    """What JSON calls a piece of decoded JSON."""
    return {"null": "null", "bool": "a boolean", "int": "an integer", "float": "a number", "str": "a string",
            "list": "an array", "object": "an object"}[KIND_OF[type(plain)]]  # fmt: skip


def expected(shape: Shape, value: object) -> Mismatch:
    advice = f": {AWAIT}" if isinstance(value, Awaitable) else ""
    return Mismatch(f"expected {shape.name}, got {type_name(type(value))}{advice}")


def expected_json(shape: Shape, plain: object) -> Mismatch:
    return Mismatch(f"expected {shape.name}, found {kind_name(plain)}")


def envelope(plain: Any) -> str | None:
    """The tag if this is one of our own envelopes: an object of one key that begins with a tilde."""
    if type(plain) is dict and len(plain) == 1:
        (key,) = plain
        if key[:1] == "~":
            return str(key)
    return None
