"""Chains: a run that continues as new goes on in its successor, which takes over all that others know the run by."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, NewRun

from .starts import Creation, columns_of
from .transactions import Transaction


async def lock_continued(tx: Transaction, runs: Sequence[int]) -> set[int]:
    """Lock runs that are about to continue, before their turns do anything else. So a sender to one of them comes
    before or after the whole commit.

    Returns the runs that somebody else has locked. Their turns are told to come again: nobody here waits for them.
    """
    return set(runs).difference(row[0] for row in await tx.all("lock_continued", {"runs": list(runs)}))


async def continue_runs(tx: Transaction, successors: Sequence[tuple[int, NewRun]], now: Instant | None) -> None:
    """Create the successors of runs, given by number, that have just ended as continued.

    The inboxes are moved by a later statement than the hooks. Whoever is just resuming a hook has its row locked, so
    the payload is in the inbox by the time that the hooks have been moved.
    """
    columns = await columns_of(tx, [Creation(run) for _, run in successors])
    moved = await tx.all("continue_runs", {**columns, "runs": [number for number, _ in successors], "now": now})
    await tx.all("move_messages", {"runs": [old for old, _ in moved], "successors": [new for _, new in moved]})
