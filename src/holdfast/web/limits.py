"""Limits: how often a caller may call, how many may stay connected, how large and how deep a body may be.

Memory is bounded, whoever calls: buckets are kept for the most recent callers only. A forgotten bucket counts as full.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable

from holdfast.errors import DefinitionError

DEEPEST = 64
"""How deeply arrays and objects may nest in a body."""
_MOST = 10_000


class Buckets:
    """A token bucket for each caller: `rate` requests a second, and bursts of twice as many after a rest."""

    def __init__(self, rate: float, *, most: int = _MOST, clock: Callable[[], float] = time.monotonic) -> None:
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not rate > 0:
            raise DefinitionError(f"rate={rate!r}: expected requests a second, more than 0, or None for no limit")
        self._rate = rate
        self._burst = max(2 * rate, 1.0)
        self._most = most
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> float:
        """Take one token. Returns 0 if there was one, else the seconds until there is."""
        now = self._clock()
        left, at = self._buckets.pop(caller, (self._burst, now))
        left = min(left + (now - at) * self._rate, self._burst)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        self._buckets[caller] = (left if wait else left - 1, now)
        while len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return wait

    def __len__(self) -> int:
        return len(self._buckets)


class Slots:
    """How many requests may stay connected at once: streams, and those that wait for a result."""

    def __init__(self, most: int) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 0:
            raise DefinitionError(f"streams={most!r}: expected how many may be connected at once")
        self.most = most
        self.taken = 0

    def take(self) -> bool:
        """Take a slot, to be given back; False if none is free."""
        if self.taken >= self.most:
            return False
        self.taken += 1
        return True

    def give(self) -> None:
        self.taken -= 1


_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""An unterminated string matches up to the end of the body: else each quote in it would start another search."""


def is_too_deep(body: bytes, deepest: int = DEEPEST) -> bool:
    """Whether JSON nests deeper than that. For text that is not JSON the answer means nothing."""
    if body.count(b"[") + body.count(b"{") <= deepest:
        return False
    depth = 0
    for token in _TOKENS.finditer(body):
        mark = token[0]
        if mark in (b"[", b"{"):
            depth += 1
            if depth > deepest:
                return True
        elif mark in (b"]", b"}"):
            depth -= 1
    return False
