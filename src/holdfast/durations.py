"""Reading durations as users write them, as whole microseconds.

It raises ValueError and imports nothing of Holdfast, so that even `errors` can use it: RetryAfter takes a duration. All
other rooms use `model.durations`.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TypeAlias

Duration: TypeAlias = str | int | float | timedelta

SECOND = 1_000_000
EXPECTED = 'write "1h30m", "500ms", seconds as a number, or a timedelta'
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


def read_duration(duration: Duration) -> int:
    """The duration in microseconds. Raises ValueError, which says what is wrong, for anything that is not a
    duration."""
    found: float | None = None
    if isinstance(duration, timedelta):
        found = duration // timedelta(microseconds=1)
    elif isinstance(duration, (int, float)) and not isinstance(duration, bool):
        if not isinstance(duration, int) and not math.isfinite(duration):
            raise ValueError("is not a finite duration")
        found = duration * SECOND
    elif isinstance(duration, str):
        found = _parse(duration)
    if found is None:
        raise ValueError("is not a duration")
    if found < 0:
        raise ValueError("is negative")
    # Before it is rounded: text with too many digits is an infinity as a float, and can't be rounded.
    if found > _LONGEST:
        raise ValueError("is longer than a thousand years")
    return round(found)


def _parse(text: str) -> float | None:
    stripped = text.strip()
    total = 0.0
    end = 0
    seen: set[str] = set()
    while end < len(stripped):
        part = _PART.match(stripped, end)
        if part is None or part[2] in seen:
            return None
        seen.add(part[2])
        total += float(part[1]) * _UNITS[part[2]]
        end = part.end()
    return total if seen else None
