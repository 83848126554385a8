"""Figures: one number, what it stands beside, and whether it is where it should be.

A ratio is never taken between two medians: it is the median of the ratios of single rounds. The two sides of a round
are measured right after each other, so whatever else the machine does slows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Target:
    """Where a figure, or its ratio to what it stands beside, should be."""

    of: Literal["value", "ratio"]
    is_most: bool
    """At most the limit, else at least."""
    limit: float
    shown: str

    def is_met(self, figure: Figure) -> bool:
        found = figure.value if self.of == "value" else figure.ratio
        if found is None:
            return False
        return found <= self.limit if self.is_most else found >= self.limit


def at_most(limit: float, unit: str) -> Target:
    """A target for the figure itself."""
    return Target("value", True, limit, f"≤ {limit:g} {unit}")


def ratio_at_most(limit: float) -> Target:
    return Target("ratio", True, limit, f"≤ {limit:g} ×")


def ratio_at_least(limit: float, shown: str) -> Target:
    return Target("ratio", False, limit, f"≥ {shown}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table. `beside` says what `beside_value`, in the same unit, is."""

    name: str
    value: float
    unit: str
    beside: str | None = None
    beside_value: float | None = None
    ratio: float | None = None
    target: Target | None = None
    rounds: tuple[float, ...] = ()
    ratios: tuple[float, ...] = ()
    """Of each round to the one beside it."""

    @property
    def verdict(self) -> str | None:
        """None where nothing was promised."""
        if self.target is None:
            return None
        return "met" if self.target.is_met(self) else "missed"

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "beside": self.beside,
            "beside_value": self.beside_value,
            "ratio": self.ratio,
            "target": None if self.target is None else self.target.shown,
            "verdict": self.verdict,
            "rounds": list(self.rounds),
            "ratios": list(self.ratios),
        }


@dataclass(frozen=True, slots=True)
class Group:
    """The figures of one measurement, and the store it was made in, if it was made in one."""

    name: str
    store: str | None
    figures: list[Figure]

    def as_json(self) -> list[dict[str, Any]]:
        return [{"group": self.name, "store": self.store, **figure.as_json()} for figure in self.figures]


def compared(
    name: str, unit: str, ours: Sequence[float], beside: str, theirs: Sequence[float], target: Target | None = None
) -> Figure:
    """A figure from rounds that were measured in turns with those of what it stands beside."""
    ratios = tuple(our / their for our, their in zip(ours, theirs, strict=True))
    return Figure(
        name=name,
        value=median(ours),
        unit=unit,
        beside=beside,
        beside_value=median(theirs),
        ratio=median(ratios),
        target=target,
        rounds=tuple(ours),
        ratios=ratios,
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that so many percent of them do not exceed."""
    ordered = sorted(values)
    return ordered[-(-len(ordered) * percent // 100) - 1]
