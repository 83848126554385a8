"""Counts of what a store has done, for tests and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Stats:
    """Counters that only grow."""

    commits: int = 0
    statements: int = 0
    writes: int = 0
    """Calls that write. Many of them may share one commit."""
    reads: int = 0
