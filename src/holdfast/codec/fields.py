"""The fields of a class made by the dataclass decorator, attrs or msgspec, in one form."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from holdfast.codec.copies import copied
from holdfast.codec.shapes import Shape

MISSING: Any = dataclasses.MISSING

_IMMUTABLE = {type(None), bool, int, float, str, bytes}


class Field(NamedTuple):
    """One field: its Python name, its key in JSON, and its parameter of `__init__` (None if it has none)."""

    name: str
    key: str
    argument: str | None
    shape: Shape
    default: Any = MISSING
    factory: Callable[[], Any] = MISSING

    @property
    def shares_default(self) -> bool:
        """Whether all values made without this field hold one object, which may be one that can change."""
        return self.default is not MISSING and type(self.default) not in _IMMUTABLE

    def own_default(self) -> Any:
        """The default as a value of its own: what one run puts into it must not be there in the next."""
        if not self.shares_default:
            return self.default
        try:
            return self.shape.load(self.shape.lower(self.default))
        except Exception:  # it does not fit the annotation, as a sentinel
            return copied(self.default)


def describe(cls: Any) -> list[tuple[str, str, str | None, Any, Any]]:
    """Each field of a record class as name, key in JSON, parameter of `__init__`, default, default factory."""
    missing = MISSING
    if issubclass(cls, msgspec.Struct):
        given = [
            tuple(missing if item is msgspec.NODEFAULT else item for item in (info.default, info.default_factory))
            for info in msgspec.structs.fields(cls)
        ]
        names = zip(cls.__struct_fields__, cls.__struct_encode_fields__, given, strict=True)
        return [(name, wire, name, default, factory) for name, wire, (default, factory) in names]
    if is_attrs(cls):
        out: list[tuple[str, str, str | None, Any, Any]] = []
        for field in cls.__attrs_attrs__:
            factory = getattr(field.default, "factory", None)
            default = missing if factory is not None or repr(field.default) == "NOTHING" else field.default
            out.append((field.name, field.name, field.alias if field.init else None, default, factory or missing))
        return out
    return [
        (field.name, field.name, field.name if field.init else None, field.default, field.default_factory)
        for field in dataclasses.fields(cls)
    ]


def accepts(cls: type, arguments: Iterable[str]) -> bool:
    """Whether `cls` can be called with exactly these arguments by name."""
    try:
        parameters = inspect.signature(cls).parameters.values()
    except (TypeError, ValueError):
        return False
    wanted = set(arguments)
    takes = {parameter.name for parameter in parameters if parameter.kind in (1, 3)}
    needs = {
        parameter.name
        for parameter in parameters
        if parameter.kind in (0, 1, 3) and parameter.default is parameter.empty
    }
    return wanted <= takes and needs <= wanted


def is_attrs(cls: type) -> bool:
    return "attr" in sys.modules and hasattr(cls, "__attrs_attrs__")
