"""How likely each fault is, and what becomes of one request to the store. The dice of a world decide."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

AGAIN = frozenset(
    {
        "commit_turns", "write_rows", "start_runs", "cancel_run",
        "deliver_event", "mark_matched", "sweep",
    }
)  # fmt: skip
"""Requests that may arrive twice, or when nobody waits for them any more, and must have the effect of one."""

LATE = frozenset({"commit_loan"})
"""Requests that arrive once, perhaps when nobody waits for them any more."""

WRITES = AGAIN | LATE | {
    "claim_runs", "reap_workers", "release_strays", "send_signal", "publish_event", "resume_hook", "set_value",
    "append_items", "pause_runs", "delete_runs",
}  # fmt: skip
"""Requests that change something, and whose answer may be lost. A message that is sent again is the same one only by
its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How likely each fault is, for one request to the store."""

    away: float = 0.0
    lost: float = 0.0
    twice: float = 0.0
    late: float = 0.0
    slow: float = 0.0
    dies_before: float = 0.0
    dies_after: float = 0.0
    delays: tuple[float, ...] = (0.0, 0.0005)

    @classmethod
    def drawn(cls, dice: Random) -> Rates:
        """Draw the rates of one world: some faults often, some never."""

        def rate(*choices: float) -> float:
            return dice.choice(choices)

        return cls(
            away=rate(0.0, 0.0, 0.01, 0.06),
            lost=rate(0.0, 0.0, 0.02, 0.10),
            twice=rate(0.0, 0.0, 0.05),
            late=rate(0.0, 0.0, 0.03),
            slow=rate(0.0, 0.0, 0.005, 0.02),
            dies_before=rate(0.0, 0.003, 0.01),
            dies_after=rate(0.0, 0.003, 0.02),
            delays=dice.choice(((0.0, 0.0005), (0.0, 0.001, 0.03), (0.002, 0.2), (0.0, 0.0, 0.0, 1.1))),
        )


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one request, and how long it and its answer travel."""

    what: str
    there: float
    back: float


class Faults:
    """Decides about requests to the store, by the dice of one world."""

    def __init__(self, dice: Random, rates: Rates, lease: float) -> None:
        self.is_on = True
        self.is_away = False
        """Nobody can reach the store."""
        self.deaths = 0
        self.settled_at = 0
        """When the last request on its way is answered, in microseconds of virtual time."""
        self._dice = dice
        self._rates = rates
        self._lease = lease

    def draw(self, method: str, *, is_mortal: bool) -> Fate:
        """Draw what becomes of the next request."""
        dice, rates = self._dice, self._rates
        if not self.is_on:
            return Fate("", 0.0, 0.0)
        there, back = dice.choice(rates.delays), dice.choice(rates.delays)
        if self.is_away:
            return Fate("away", there, back)
        roll = dice.random()
        chances = {"away": rates.away, "slow": rates.slow}
        if method in WRITES:
            chances["lost"] = rates.lost
            if method in AGAIN:
                chances |= {"twice": rates.twice, "late": rates.late}
            elif method in LATE:
                chances["late"] = rates.late
            if is_mortal and self.deaths > 0:
                chances |= {"dies before": rates.dies_before, "dies after": rates.dies_after}
        for what, chance in chances.items():
            if roll < chance:
                return self._fate(what, there, back)
            roll -= chance
        return Fate("", there, back)

    def wake_up(self) -> float:
        """How long news from the store travel."""
        return self._dice.choice(self._rates.delays) if self.is_on else 0.0

    def _fate(self, what: str, there: float, back: float) -> Fate:
        if what == "late":
            # The sender is told that the request failed, and sends it again. Then this one arrives after all.
            return Fate("late", there, self._dice.uniform(0.05, 2 * self._lease))
        if what == "slow":
            extra = self._lease * self._dice.uniform(0.5, 2.5)
            return Fate("", there + extra, back) if self._dice.random() < 0.5 else Fate("", there, back + extra)
        if what.startswith("dies"):
            self.deaths -= 1
        return Fate(what, there, back)
