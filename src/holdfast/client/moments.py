"""Moments and durations in the words of an explanation."""

from __future__ import annotations

from datetime import datetime

from holdfast.model import SECOND, instant_of, spoken


def spelt(moment: datetime) -> str:
    """The moment, in UTC."""
    return moment.isoformat(" ", "milliseconds" if moment.microsecond else "seconds").replace("+00:00", " UTC")


def time_left(moment: datetime, now: datetime) -> str:
    """How long it is until then."""
    left = instant_of(moment) - instant_of(now)
    # Whole seconds are precise enough for a reader, except at the very end.
    rounded = round(left / SECOND) * SECOND if left > SECOND else left
    return f"in {spoken(rounded)}" if left > 0 else "now"
