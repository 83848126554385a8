"""Chains: a run that continues as new goes on in its successor, which takes over what the outside knows it by."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, Lane, NewRun

from .lanes import add_lanes, find_lanes
from .transactions import Transaction, as_json


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
    lanes = [Lane(run.workflow, run.version, run.queue) for _, run in successors]
    if not tx.lanes.keys() >= set(lanes):
        await add_lanes(tx, lanes)
        await find_lanes(tx, list(dict.fromkeys(lanes)))
    numbers = tx.lanes
    runs = [run for _, run in successors]
    params = {
        "namespace_id": tx.namespace_id,
        "runs": [number for number, _ in successors],
        "ids": [run.id for run in runs],
        "lanes": [numbers[lane] for lane in lanes],
        "priorities": [run.priority for run in runs],
        "delays": [run.delay for run in runs],
        "due_ats": [run.due_at for run in runs],
        "deadlines": [run.deadline for run in runs],
        "deadline_ats": [run.deadline_at for run in runs],
        "next_seqs": [len(run.rows) for run in runs],
        "inputs": [run.input for run in runs],
        "seeds": [run.seed for run in runs],
        "keys": [run.key for run in runs],
        "tags": [as_json(run.tags) if run.tags else "{}" for run in runs],
        "retentions": [run.retention for run in runs],
        "forked_froms": [run.forked_from for run in runs],
        "origin_ids": [run.origin_id for run in runs],
        "journal_ids": [run.id for run in runs for _ in run.rows],
        "journal_seqs": [seq for run in runs for seq in range(len(run.rows))],
        "journal_datas": [data for run in runs for data in run.rows],
        "now": now,
    }
    moved = await tx.all("continue_runs", params)
    await tx.all("move_inbox", {"runs": [old for old, _ in moved], "successors": [new for _, new in moved]})
