"""Lanes: a workflow, in a version, on a queue. They are never removed, so their numbers are looked up once, and so is
the namespace's: once in each database that the server may have by this name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from holdfast.model import Lane

from .transactions import Transaction

K = TypeVar("K")


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
        found = tx.shared_lanes if tx.made_lanes is None else tx.made_lanes
        for workflow, version, queue, number in await tx.all("find_lanes", params):
            found[Lane(workflow, version, queue)] = number
    known = tx.lanes
    return [known[lane] for lane in lanes if lane in known]


async def learn_place(tx: Transaction) -> None:
    """Learn which database this is, and the number of the namespace in it, which is made if need be."""
    name = {"name": tx.known.namespace}
    if await tx.one("find_namespace", name) is None:
        await tx.all("insert_namespace", name)
    place = await tx.one("find_place", name)
    assert place is not None
    tx.known.origin, tx.known.namespace_id = place


async def learn_if_elsewhere(tx: Transaction) -> None:
    """Learn all anew if somebody has dropped the database or its schema, and made it again: numbers are others there,
    and by the old ones a namespace or a workflow would be taken for another."""
    if await _is_elsewhere(tx):
        await learn_again(tx)


async def _is_elsewhere(tx: Transaction) -> bool:
    if not tx.known.was_open:
        return False
    place = await tx.one("find_place", {"name": tx.known.namespace})
    return place is None or tuple(place) != (tx.known.origin, tx.known.namespace_id)


async def learn_again(tx: Transaction) -> None:
    """Ask for all numbers that are known once more. A server that has lost its last commits, as a standby that was
    promoted, gives the numbers of what was lost to others; and a connection that is new may be one to such a server.
    Whether it has lost turns of a run shows by the next one: see `lost_by_server`."""
    known = tx.known
    if await _is_elsewhere(tx):
        await learn_place(tx)
    # Copies: other threads add to them.
    if ids := set(known.numbers.copy()):
        known.unsure.update(ids)
        rows = await tx.all("find_numbers", {"namespace_id": tx.namespace_id, "ids": list(ids)})
        known.numbers = _but(known.numbers, ids) | {row[0]: row[1] for row in rows}
    if lanes := set(known.lanes.copy()):
        found = replace(known, lanes={})
        await find_lanes(Transaction(tx.execute, tx.blocks, found), list(lanes))
        known.lanes = _but(known.lanes, lanes) | found.lanes


def _but(known: dict[K, int], asked: set[K]) -> dict[K, int]:
    """What others have learned meanwhile. A copy: whoever is in the middle of something goes on with what it has."""
    return {key: number for key, number in known.copy().items() if key not in asked}


async def add_lanes(tx: Transaction, lanes: Iterable[Lane]) -> None:
    """Make those that are not known. Only this transaction remembers them until it is committed: it may be undone."""
    known = tx.lanes
    asked = sorted({lane for lane in lanes if lane not in known})
    if asked:
        params = {
            "namespace_id": tx.namespace_id,
            "workflows": [lane.workflow for lane in asked],
            "versions": [lane.version for lane in asked],
            "queues": [lane.queue for lane in asked],
        }
        await tx.all("insert_lanes", params)
        tx.made_lanes = tx.made_lanes or {}
