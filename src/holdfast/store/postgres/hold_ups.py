"""Which turns have to wait for what a caller's open transaction holds, and which of them are sent meanwhile. Pure.

All turns of a process that give something out go over one connection, so whatever one of them waits for, all others
wait for, too. A key that a caller has started a run with, and not committed, is held for as long as that caller likes.
So a batch waits once as long as a commit may take, then hardly, and only a few times in all. What is left is told to
come again, and its worker sends it later, after longer and longer pauses.

What such a turn waits for is not known, only what it wants. A set of wants of which one was held holds up every turn
that wants all of the set; one of these is sent to find out whether that is over, and the others go with the next if it
is. Fairness: those that were sent longest ago are first, so with ten waits a batch no turn is passed over for ever; a
send that goes through waits for nothing and is not counted, so when the caller's transaction ends, all go on the next
time that they come. Between batches that have waited there is a rest in which nothing held up is sent, lest every batch
waits; but a turn that was passed over several times is sent in spite of the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TypeAlias

from holdfast.errors import StoreAway
from holdfast.model import Turn

FIRST_WAIT, NEXT_WAIT = 50, 5
"""Milliseconds. A commit of somebody else's that is under way takes less than the first, on most machines."""
MOST_WAITS = 10
MOST_PASSED_OVER = 3
REST = 9
"""How long a rest is, in what the batch before it has waited: held-up turns take a tenth of the time."""
Wants: TypeAlias = frozenset[tuple[str, str]]


class Patience:
    """How often one batch may still find out that a lock is held, and for how long it waits for that."""

    def __init__(self) -> None:
        self._left = MOST_WAITS
        self._wait = FIRST_WAIT
        self.spent = 0
        """Milliseconds."""
        self.unsent: set[str] = set()
        """Runs of a part that had to wait, whose turns were not sent by themselves: maybe nothing holds them up."""

    @property
    def lock_timeout(self) -> str:
        return f"{self._wait}ms"

    @property
    def is_over(self) -> bool:
        return self._left <= 0

    def waited(self) -> None:
        """A lock was not free in time."""
        self._left -= 1
        self.spent += self._wait
        self.hurry()

    def hurry(self) -> None:
        """From here on, hardly wait."""
        self._wait = NEXT_WAIT

    def cut_off(self, run_id: str) -> StoreAway:
        """The answer to a turn for which no wait is left."""
        self.unsent.add(run_id)
        return come_again(run_id)


class HoldUps:
    """What turns were held up by. It is used on one event loop."""

    def __init__(self) -> None:
        self._passed_over: dict[Wants, int] = {}
        """The wants that could not be had, the one that was tried longest ago first, each with how often turns that
        wait for it were not sent since."""
        self._rests_until = 0.0

    def of(self, wants: Wants) -> Wants | None:
        """The known wants because of which a run is held up, if it is."""
        if wants in self._passed_over:
            return wants
        return next((one for one in self._passed_over if one < wants), None) if len(wants) > 1 else None

    def in_turn(self, known: Iterable[Wants]) -> list[Wants]:
        """Those wants in the order in which they are tried."""
        asked = set(known)
        return [one for one in self._passed_over if one in asked] if asked else []

    def may_try(self, wants: Wants) -> bool:
        """Whether a turn that is held up may be sent; if not, it was passed over."""
        passed_over = self._passed_over.get(wants, 0)
        if time.monotonic() >= self._rests_until or passed_over >= MOST_PASSED_OVER:
            return True
        self.pass_over(wants)
        return False

    def pass_over(self, wants: Wants) -> None:
        if wants in self._passed_over:
            self._passed_over[wants] += 1

    def waited(self, wants: Wants) -> None:
        """A turn that wants these had to wait: it is behind all others now."""
        self._passed_over.pop(wants, None)
        self._passed_over[wants] = 0

    def suspect(self, wants: Iterable[Wants]) -> None:
        """Turns that want these were not sent by themselves: they are first, and do not wait for the end of a rest."""
        new = [one for one in wants if one not in self._passed_over]
        if new:
            self._passed_over = {**dict.fromkeys(new, MOST_PASSED_OVER), **self._passed_over}

    def went_through(self, wants: Wants) -> None:
        self._passed_over.pop(wants, None)

    def rest(self, spent: int) -> None:
        """A batch has waited for so many milliseconds."""
        if spent:
            self._rests_until = time.monotonic() + REST * spent / 1000


def wants_of(turns: Iterable[Turn]) -> Wants:
    """What these turns of one run may have to wait for: the keys of children. If there are none, something of the run's
    own."""
    run_ids: set[str] = set()
    keys: set[tuple[str, str]] = set()
    for turn in turns:
        run_ids.add(turn.run_id)
        if turn.out is not None:
            keys.update((child.workflow, child.key) for child in turn.out.children if child.key is not None)
    return frozenset(keys or {("", run_id) for run_id in run_ids})


def come_again(run_id: str) -> StoreAway:
    """The answer to a turn that was not sent."""
    return StoreAway(
        f"another transaction holds what the run {run_id} needs, maybe a key. It goes on when that one ends:"
        " if it was left open, end it"
    )
