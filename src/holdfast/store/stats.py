"""What a store has done, counted: for tests and benchmarks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Stats:
    """Counters that only grow."""

    commits: int = 0
    statements: int = 0
    writes: int = 0
    """Write calls: many of them share a commit."""
    reads: int = 0
