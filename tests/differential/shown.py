"""Values as a reader wants them: without defaults, times counted from the beginning, long bytes cut."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec

from holdfast.model import SECOND, instant_of

_LONGEST = 48


def show(value: Any, base: int) -> str:
    """One value, whatever it is made of."""
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        told = [
            f"{one.name}={show(getattr(value, one.name), base)}"
            for one in fields
            if one.required or getattr(value, one.name) != one.default
        ]
        return f"{type(value).__name__}({', '.join(told)})"
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, datetime):
        return show(instant_of(value, what="a time"), base)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value - base) < 10**6 * SECOND:
        return f"T{(value - base) / SECOND:+.6f}"
    if isinstance(value, bytes) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]!r}… of {len(value)}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{show(key, base)}: {show(one, base)}" for key, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(show(one, base) for one in value) + "]"
    return repr(value)


def parted(one: Any, other: Any) -> tuple[Any, Any]:
    """Only what differs of two values."""
    if isinstance(one, msgspec.Struct) and type(one) is type(other):
        one, other = msgspec.structs.asdict(one), msgspec.structs.asdict(other)
        left, right = parted(one, other)
        # Whose it is.
        name = {"id": one["id"]} if "id" in one else {}
        return {**name, **left}, {**name, **right}
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = [key for key in {**one, **other} if key not in one or key not in other or one[key] != other[key]]
        pairs = {key: parted(one.get(key), other.get(key)) for key in keys}
        return {key: pair[0] for key, pair in pairs.items()}, {key: pair[1] for key, pair in pairs.items()}
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        pairs_ = [parted(left, right) for left, right in zip(one, other, strict=True) if left != right]
        return [pair[0] for pair in pairs_], [pair[1] for pair in pairs_]
    return one, other
