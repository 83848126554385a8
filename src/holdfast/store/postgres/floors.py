"""Floors: below which time no claimable entry has been seen, so that claims need not walk there every time.

A claimed run leaves a dead entry at the head of the index, and while anybody holds an old snapshot open it can't be
removed: a walk from the beginning gets longer with every claim. So a claim begins a little before the earliest entry
that the last walk found. That is a hint and no high-water mark: walks from the beginning go on, for what was committed
late, every second at least while they take a hundredth of the time or less, and a twentieth of it at most. In a healthy
database that is many times a second. Whoever knows that something older has come says so, and for a while walks begin
there: an event may have been published long before it met its wait, and a caller's transaction may be open for long.
"""

from __future__ import annotations

import time

from holdfast.model import SECOND, Instant

BOTTOM: Instant = -(2**63)
"""Where a walk from the beginning begins: a run may have been due since before 1970."""
SLACK = SECOND // 4
_SELDOM = 100
_OFTEN = 20
_PAUSE = 1_000_000_000
"""What was committed late waits no longer than this, in nanoseconds, unless walks take too long for that."""


class Floor:
    """The floor of one set of lanes. Instants are the database's, durations this process's."""

    def __init__(self) -> None:
        self._at = BOTTOM
        self._whole_at = 0
        self._low = BOTTOM
        self._low_until = 0

    def lower(self, at: Instant) -> None:
        """Something as old as that has come just now."""
        is_low = time.monotonic_ns() < self._low_until
        self._low = min(self._low, at) if is_low else at
        self._low_until = time.monotonic_ns() + _PAUSE

    def begin(self) -> Instant:
        """Where a walk is to begin."""
        now = time.monotonic_ns()
        if now >= self._whole_at:
            return BOTTOM
        return min(self._at, self._low) if now < self._low_until else self._at

    def seen(self, begun_at: Instant, earliest: Instant | None, now: Instant, took: int) -> None:
        """A walk from `begun_at` found this as its earliest entry, or none, and took so many nanoseconds."""
        if begun_at == BOTTOM:
            self._whole_at = time.monotonic_ns() + max(took * _OFTEN, min(took * _SELDOM, _PAUSE))
        self._at = min(now if earliest is None else earliest, now) - SLACK
