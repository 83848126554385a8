"""Whether a commit may be made where it is asked for, on the caller's event loop, instead of by the writer's thread.

The way to that thread and back takes more than half of what a quick disk takes to commit. A slow one must not hold a
loop up: when commits take long, all others go to the thread for a while, for longer each time. One that took long
among many that did not says nothing, unless it took very long: what counts is an average that follows the last few.
And where many commit at once, one that happens to go alone is left to the thread, too: meanwhile the next ones gather
behind it.
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
    """How quick commits have been. Now and then one is left to the thread, which looks after the log's size."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._left = _IN_A_ROW
        self._crowded = 0
        self._average = 0.0
        self._slow_until = 0.0
        self._pause = _FIRST_PAUSE

    def may_try(self) -> bool:
        """Whether the next one, which goes alone, is likely to be quick."""
        if self._crowded:
            self._crowded -= 1
            return False
        if not self._left:
            self._left = _IN_A_ROW
            return False
        return not self._slow_until or self._monotonic() > self._slow_until

    def crowded(self) -> None:
        """Several went out together."""
        self._crowded = _AFTER_A_CROWD

    def took(self, seconds: float) -> None:
        """One was made here."""
        self._left -= 1
        self._average += (seconds - self._average) * _SHARE
        if self._average > _QUICK:
            # The next that is tried decides, whatever these were.
            self._average = _QUICK
            self._slow_until = self._monotonic() + self._pause
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        elif self._slow_until:
            self._slow_until = 0.0
            self._pause = _FIRST_PAUSE
