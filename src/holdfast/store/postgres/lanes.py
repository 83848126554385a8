"""Lanes: a workflow, in a version, on a queue. They are never removed, so their numbers are looked up once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.model import Lane

from .transactions import Transaction


async def find_lanes(tx: Transaction, lanes: Sequence[Lane]) -> list[int]:
    """The numbers of those lanes that exist."""
    known = tx.lanes
    missing = [lane for lane in lanes if lane not in known]
    if missing:
        params = {
            "namespace_id": tx.namespace_id,
            "workflows": [lane.workflow for lane in missing],
            "versions": [lane.version for lane in missing],
            "queues": [lane.queue for lane in missing],
        }
        found = tx.known.lanes if tx.made_lanes is None else tx.made_lanes
        for workflow, version, queue, number in await tx.all("find_lanes", params):
            found[Lane(workflow, version, queue)] = number
    known = tx.lanes
    return [known[lane] for lane in lanes if lane in known]


async def add_lanes(tx: Transaction, lanes: Iterable[Lane]) -> None:
    """Make those that are not known. Only this transaction remembers them until it is committed: it may be undone."""
    known = tx.lanes
    asked = sorted(
        {lane for lane in lanes if lane not in known},
        key=lambda lane: (lane.workflow, lane.version, lane.queue),
    )
    if asked:
        params = {
            "namespace_id": tx.namespace_id,
            "workflows": [lane.workflow for lane in asked],
            "versions": [lane.version for lane in asked],
            "queues": [lane.queue for lane in asked],
        }
        await tx.all("insert_lanes", params)
        tx.made_lanes = tx.made_lanes or {}
