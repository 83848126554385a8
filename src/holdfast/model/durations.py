"""Durations and instants. A duration is what users write; inside the house time is whole microseconds.

An instant is an `int`: microseconds since 1970 in UTC. Public records show aware datetimes instead.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from holdfast.durations import EXPECTED, SECOND, Duration, read_duration
from holdfast.errors import BadDuration

__all__ = ["SECOND", "Duration", "Instant", "instant_of", "microseconds", "moment_of", "spoken"]

Instant: TypeAlias = int

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(duration: Duration, *, what: str = "duration", also: str = "") -> int:
    """The duration in microseconds. Raises BadDuration for nonsense, negative or endless values; `also` ends its
    message with what else may be given."""
    try:
        return read_duration(duration)
    except ValueError as refused:
        raise BadDuration(f"{what}: {duration!r} {refused}; {EXPECTED}{also}") from None


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
