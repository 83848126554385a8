"""Chains: a run that continues as new goes on in its successor, which takes over what the outside knows it by."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, NewRun

from .starts import Creation, columns_of
from .transactions import Transaction


async def lock_continued(tx: Transaction, runs: Sequence[int]) -> set[int]:
    """Before anything else of their turns: whoever is sending to one comes before or after the whole commit.

    Returns those that somebody else has locked: their turns come again, and nobody here waits for them.
    """
    return set(runs).difference(row[0] for row in await tx.all("lock_continued", {"runs": list(runs)}))


async def continue_runs(tx: Transaction, successors: Sequence[tuple[int, NewRun]], now: Instant | None) -> None:
    """Create the successors of runs (by number) that have just ended as continued.

    The inbox is moved by a later statement than the hooks: a payload for a hook that is on its way keeps the hook's
    row locked, and is in the inbox when the hooks have been moved.
    """
    columns = await columns_of(tx, [Creation(run) for _, run in successors])
    moved = await tx.all("continue_runs", {**columns, "runs": [number for number, _ in successors], "now": now})
    await tx.all("move_messages", {"runs": [old for old, _ in moved], "successors": [new for _, new in moved]})
