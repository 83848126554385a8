"""Floors: times below which no claimable entry was seen lately, so that claims need not walk there each time.

A claimed run leaves a dead entry at the head of the index. It can't be removed while anybody holds an old snapshot
open, so a walk from the beginning gets longer with every claim. Therefore a claim begins a little before the earliest
entry that the last walk found. The floor is a hint and no high-water mark: for what is committed late, some walks still
start from the beginning. They take about a hundredth of the time, which in a healthy database is many walks a second.
Where that would be less than one a second, they take more, up to a twentieth. Whoever knows that an older entry has
come lowers the floor for a while: an event may have been published long before it met its wait, and a caller's
transaction may have been open for long.
"""

from __future__ import annotations

import time

from holdfast.model import SECOND, Instant

BOTTOM: Instant = -(2**63)
"""The floor of a walk from the beginning: a run may have been due since before 1970."""
SLACK = SECOND // 4
_SELDOM = 100
_OFTEN = 20
_PAUSE = 1_000_000_000
"""Nanoseconds after which an entry that was committed late is found, unless walks take too long for that."""


class Floor:
    """The floor of one set of lanes. Instants are the database's, durations this process's."""

    def __init__(self) -> None:
        self._at = BOTTOM
        self._whole_at = 0
        self._low = BOTTOM
        self._low_until = 0

    def lower(self, at: Instant) -> None:
        """An entry as old as this has come just now."""
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
        """A walk from `begun_at` on has found `earliest` first, or nothing, and took so many nanoseconds."""
        if begun_at == BOTTOM:
            self._whole_at = time.monotonic_ns() + max(took * _OFTEN, min(took * _SELDOM, _PAUSE))
        self._at = min(now if earliest is None else earliest, now) - SLACK
