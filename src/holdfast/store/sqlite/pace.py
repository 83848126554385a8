"""Whether a commit may be made on the caller's event loop, instead of by the writer's thread.

The way to that thread and back takes more than half as long as a quick disk takes to commit. A slow disk must not hold
up a loop: when commits take long, they go to the thread for a while, and for longer each time. A single slow commit
among many quick ones does not count, unless it was very slow: what decides is a moving average. And while many commit
at once, a turn that happens to come alone is left to the thread, too, so that the next turns gather behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_QUICK = 0.000_5
_SHARE = 1 / 32
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_IN_A_ROW = 32
_AFTER_A_CROWD = 8


class Pace:
    """How quick commits have been. Now and then one is left to the thread, which also takes care of the log's size."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._left = _IN_A_ROW
        self._crowded = 0
        self._average = 0.0
        self._slow_until = 0.0
        self._pause = _FIRST_PAUSE

    def may_try(self) -> bool:
        """Whether the next commit, of a turn that comes alone, may be tried here."""
        if self._crowded:
            self._crowded -= 1
            return False
        if not self._left:
            self._left = _IN_A_ROW
            return False
        return not self._slow_until or self._monotonic() > self._slow_until

    def crowded(self) -> None:
        """To be called when several turns were committed together."""
        self._crowded = _AFTER_A_CROWD

    def took(self, seconds: float) -> None:
        """To be called after a commit that was made here, with the time that it took."""
        self._left -= 1
        self._average += (seconds - self._average) * _SHARE
        if self._average > _QUICK:
            # The next one that is tried decides, however slow these were.
            self._average = _QUICK
            self._slow_until = self._monotonic() + self._pause
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        elif self._slow_until:
            self._slow_until = 0.0
            self._pause = _FIRST_PAUSE
