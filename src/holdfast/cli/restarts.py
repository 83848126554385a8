"""When to restart a process that has ended, and when to give up. Pure."""

from __future__ import annotations

QUICK = 10.0
"""A process that lived for fewer seconds than this has died quickly."""
LIMIT = 5
"""This many quick deaths in a row are a crash loop."""
_FIRST: float = 0.5
_LONGEST = 30.0


class Restarts:
    """Counts the deaths of one process and of those that replaced it."""

    def __init__(self) -> None:
        self.quick_deaths = 0
        self._pauses = 0

    @property
    def is_hopeless(self) -> bool:
        return self.quick_deaths >= LIMIT

    def died(self, lived: float, *, is_to_blame: bool = True) -> float:
        """A process has ended after `lived` seconds. Returns how many seconds to wait before the next is started.

        `is_to_blame` is false if the cause lies elsewhere, such as a database that is away. Then processes are started
        more and more slowly, but never given up.
        """
        if lived >= QUICK:
            self.quick_deaths = self._pauses = 0
            return 0.0
        self.quick_deaths += is_to_blame
        pause = min(_FIRST * 2.0**self._pauses, _LONGEST)
        self._pauses += 1
        return pause
