"""When to start a process again that has ended, and when to give up. Pure."""

from __future__ import annotations

QUICK = 10.0
"""A process that lives shorter than this has died quickly. In seconds."""
LIMIT = 5
"""So many quick deaths in a row are a crash loop."""
_FIRST: float = 0.5
_LONGEST = 30.0


class Restarts:
    """The deaths of one process and of those that took its place."""

    def __init__(self) -> None:
        self.quick_deaths = 0
        self._pauses = 0

    @property
    def is_hopeless(self) -> bool:
        return self.quick_deaths >= LIMIT

    def died(self, lived: float, *, is_to_blame: bool = True) -> float:
        """One has ended after so many seconds; how many to wait before the next one is started.

        `is_to_blame` is false if it ended for a reason that lies elsewhere, such as a database that is away: it is
        started again more and more slowly, and never given up.
        """
        if lived >= QUICK:
            self.quick_deaths = self._pauses = 0
            return 0.0
        self.quick_deaths += is_to_blame
        pause = min(_FIRST * 2.0**self._pauses, _LONGEST)
        self._pauses += 1
        return pause
