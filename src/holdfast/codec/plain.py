"""Values as plain JSON that any program understands, over HTTP and in a terminal. It is never read back.

A datetime is its ISO text, a Decimal and a UUID are their text, bytes are base64, sets and tuples are arrays, and the
keys of an object are text. NaN and the infinities, which JSON lacks, are null.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Mapping, Set
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any

import msgspec

_DEEPEST = 100


def plain(value: Any, depth: int = 0) -> Any:
    """The value as plain JSON. A value without such a form becomes its `str`."""
    if depth > _DEEPEST:
        return "…"
    match value:
        case None | bool():
            return value
        case Enum():
            return plain(value.value, depth + 1)
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else None
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(bytes(value)).decode("ascii")
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return msgspec.to_builtins(value)
        case Mapping():
            return {plain_key(key): plain(item, depth + 1) for key, item in value.items()}
        case Set():
            return [plain(item, depth + 1) for item in sorted(value, key=repr)]
        case list() | tuple():
            return [plain(item, depth + 1) for item in value]
        case BaseException():
            return f"{type(value).__name__}: {value}"
    if dataclasses.is_dataclass(value) or isinstance(value, msgspec.Struct):
        fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else msgspec.structs.fields(value)
        return {field.name: plain(getattr(value, field.name), depth + 1) for field in fields}
    return plain(str(value), depth + 1)


def plain_key(key: Any) -> str:
    """A key of a JSON object, which must be text."""
    found = plain(key)
    return found if isinstance(found, str) else msgspec.json.encode(found).decode()
