"""Metrics by labels: counted in plain lists, and made into prometheus_client's families when they are collected.

prometheus_client's own metrics lock each series and look up the labels at each count, which costs more than all other
work for a fact. Labels are bounded: names beyond a limit are counted as "other".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

OTHER = "other"


class Names:
    """Maps each of the first `most` names to itself, and all later ones to OTHER."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def __getitem__(self, name: str) -> str:
        if name in self._known:
            return name
        if len(self._known) < self._most:
            self._known.add(name)
            return name
        return OTHER


class Counts:
    """A counter by labels."""

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, labels: tuple[str, ...], count: int = 1) -> None:
        self._counts[labels] = self._counts.get(labels, 0) + count

    def empty(self, core: Any) -> Any:
        return core.CounterMetricFamily(self.name, self.text, labels=self.labels)

    def family(self, core: Any) -> Any:
        found = self.empty(core)
        for labels, count in self._counts.items():
            found.add_metric(labels, count)
        return found


class Totals:
    """A counter that shows how many values a histogram holds."""

    def __init__(self, name: str, text: str, spread: Spread) -> None:
        self.name, self.text, self._spread = name, text, spread

    def empty(self, core: Any) -> Any:
        return core.CounterMetricFamily(self.name, self.text, labels=self._spread.labels)

    def family(self, core: Any) -> Any:
        found = self.empty(core)
        for labels, count in self._spread.totals():
            found.add_metric(labels, count)
        return found


class Spread:
    """A histogram by labels.

    Values are whole numbers, such as microseconds; `unit` of them are 1 in the bounds and in what is shown.
    """

    def __init__(self, name: str, text: str, labels: Sequence[str], bounds: Sequence[float], unit: float) -> None:
        self.name, self.text, self.labels = name, text, tuple(labels)
        self._unit = unit
        self._bounds = tuple(bounds)
        self.limits = [round(bound * unit) for bound in bounds]
        self._series: dict[tuple[str, ...], list[int]] = {}

    def of(self, labels: tuple[str, ...]) -> list[int]:
        """A series: how many values fell into each bucket, how many were beyond the last bound, and the values' sum."""
        found = self._series.get(labels)
        if found is None:
            found = self._series[labels] = [0] * (len(self.limits) + 2)
        return found

    def add_to(self, labels: tuple[str, ...], value: int) -> None:
        series = self._series.get(labels) or self.of(labels)
        series[bisect_left(self.limits, value)] += 1
        series[-1] += value

    def add_all(self, labels: tuple[str, ...], values: Sequence[int]) -> None:
        """Add several durations at once. By two clocks a duration may come out negative: that is 0."""
        series, limits = self.of(labels), self.limits
        for value in values:
            if value > 0:
                series[bisect_left(limits, value)] += 1
                series[-1] += value
            else:
                series[0] += 1

    def empty(self, core: Any) -> Any:
        return core.HistogramMetricFamily(self.name, self.text, labels=self.labels)

    def family(self, core: Any) -> Any:
        found = self.empty(core)
        for labels, series in self._series.items():
            found.add_metric(labels, list(self._buckets(series)), series[-1] / self._unit)
        return found

    def totals(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """How many values there were, by labels."""
        for labels, series in self._series.items():
            yield labels, sum(series[:-1])

    def _buckets(self, series: list[int]) -> Iterator[tuple[str, int]]:
        total = 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), series, strict=False):
            total += count
            yield bound, total
