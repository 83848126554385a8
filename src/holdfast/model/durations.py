"""Durations and instants. A duration is what users write; inside the house time is whole microseconds.

An instant is an `int`: microseconds since 1970 in UTC. Public records show aware datetimes instead.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from holdfast.errors import BadDuration

Duration: TypeAlias = str | int | float | timedelta
Instant: TypeAlias = int

SECOND = 1_000_000
_UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3_600 * SECOND,
    "d": 86_400 * SECOND,
    "w": 604_800 * SECOND,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d|w)\s*")
_LONGEST = 1_000 * 366 * 86_400 * SECOND
_EXPECTED = 'write "1h30m", "500ms", seconds as a number, or a timedelta'
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(duration: Duration, *, what: str = "duration") -> int:
    """The duration in microseconds. Raises BadDuration for nonsense, negative or endless values."""
    if isinstance(duration, bool):
        raise BadDuration(f"{what}: {duration!r} is not a duration; {_EXPECTED}")
    if isinstance(duration, timedelta):
        found = duration // timedelta(microseconds=1)
    elif isinstance(duration, (int, float)):
        if not math.isfinite(duration):
            raise BadDuration(f"{what}: {duration!r} is not a finite duration; {_EXPECTED}")
        found = round(duration * SECOND)
    elif isinstance(duration, str):
        found = _parse(duration, what)
    else:
        raise BadDuration(f"{what}: {duration!r} is not a duration; {_EXPECTED}")
    if found < 0:
        raise BadDuration(f"{what}: {duration!r} is negative; {_EXPECTED}")
    if found > _LONGEST:
        raise BadDuration(f"{what}: {duration!r} is longer than a thousand years; {_EXPECTED}")
    return found


def _parse(text: str, what: str) -> int:
    stripped = text.strip()
    total = 0.0
    end = 0
    seen: set[str] = set()
    while end < len(stripped):
        part = _PART.match(stripped, end)
        if part is None or part[2] in seen:
            raise BadDuration(f"{what}: {text!r} is not a duration; {_EXPECTED}")
        seen.add(part[2])
        total += float(part[1]) * _UNITS[part[2]]
        end = part.end()
    if not seen:
        raise BadDuration(f"{what}: {text!r} is not a duration; {_EXPECTED}")
    return round(total)


def instant_of(moment: datetime, *, what: str = "time") -> Instant:
    """The instant of an aware datetime. A naive one is refused: it would mean another time elsewhere."""
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise BadDuration(f"{what}: {moment!r} is not an aware datetime; give it a tzinfo, such as datetime.UTC")
    try:
        return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    except OverflowError:
        raise BadDuration(
            f"{what}: {moment!r} is out of range; expected a time between the years 1 and 9999 in UTC"
        ) from None


def moment_of(instant: Instant) -> datetime:
    """The aware UTC datetime of an instant."""
    return _EPOCH + timedelta(microseconds=instant)


def spoken(duration: int) -> str:
    """A duration in microseconds as a person would say it: "1h30m", "250ms"."""
    if duration < SECOND:
        return f"{duration / 1000:g}ms"
    parts = []
    left = round(duration / SECOND, 3 if duration < 60 * SECOND else 0)
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{int(count)}{unit}")
    if left or not parts:
        parts.append(f"{left:g}s")
    return "".join(parts)
