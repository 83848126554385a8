"""Figures: a number, what it is compared with, and whether it meets its target.

A ratio is never that of two medians: it is the median of the ratios of single rounds. The two sides of a round are
measured right after each other, so other load on the machine slows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Target:
    """Where a figure, or its ratio to what it is compared with, should be."""

    of: Literal["value", "ratio"]
    is_most: bool
    """Whether the limit is an upper one."""
    limit: float
    shown: str

    def is_met(self, figure: Figure) -> bool:
        found = figure.value if self.of == "value" else figure.ratio
        if found is None:
            return False
        return found <= self.limit if self.is_most else found >= self.limit


def at_most(limit: float, unit: str) -> Target:
    """A target for the figure's own value."""
    return Target("value", True, limit, f"≤ {limit:g} {unit}")


def ratio_at_most(limit: float) -> Target:
    return Target("ratio", True, limit, f"≤ {limit:g} ×")


def ratio_at_least(limit: float, shown: str) -> Target:
    return Target("ratio", False, limit, f"≥ {shown}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table. `beside` says what `beside_value` is; both values have the same unit."""

    name: str
    value: float
    unit: str
    beside: str | None = None
    beside_value: float | None = None
    ratio: float | None = None
    target: Target | None = None
    rounds: tuple[float, ...] = ()
    ratios: tuple[float, ...] = ()
    """For each round, its ratio to the other side's."""

    @property
    def verdict(self) -> str | None:
        """ "met" or "missed"; None if nothing was promised."""
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
    """The figures of one measurement, and its store, if it was made in one."""

    name: str
    store: str | None
    figures: list[Figure]

    def as_json(self) -> list[dict[str, Any]]:
        return [{"group": self.name, "store": self.store, **figure.as_json()} for figure in self.figures]


def compared(
    name: str, unit: str, ours: Sequence[float], beside: str, theirs: Sequence[float], target: Target | None = None
) -> Figure:
    """A figure from rounds that were measured in turns with the rounds that it is compared with."""
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
    """The value that `percent` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[-(-len(ordered) * percent // 100) - 1]
