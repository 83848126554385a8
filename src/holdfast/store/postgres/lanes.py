"""Lanes (a workflow, in a version, on a queue) and the namespace: their numbers. Neither is ever removed, so a number
is looked up once, and again only if the database may be another one than before."""

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
    """Learn which database this is, and the namespace's number in it. A missing namespace is inserted."""
    name = {"name": tx.known.namespace}
    if await tx.one("find_namespace", name) is None:
        await tx.all("insert_namespace", name)
    place = await tx.one("find_place", name)
    assert place is not None
    tx.known.origin, tx.known.namespace_id = place


async def learn_if_elsewhere(tx: Transaction) -> None:
    """Learn all numbers anew if somebody has dropped the database or its schema and made it again. Everything has other
    numbers there, and by the old ones we would take a namespace or a workflow for another."""
    if await _is_elsewhere(tx):
        await learn_again(tx)


async def _is_elsewhere(tx: Transaction) -> bool:
    if not tx.known.was_open:
        return False
    place = await tx.one("find_place", {"name": tx.known.namespace})
    return place is None or tuple(place) != (tx.known.origin, tx.known.namespace_id)


async def learn_again(tx: Transaction) -> None:
    """Look all known numbers up again. A new connection may be to a server that has lost its last commits, such as a
    standby that was promoted, and such a server gives the numbers of what was lost to something else. Whether it has
    also lost turns of a run is found out at the run's next turn: see `lost_by_server`."""
    known = tx.known
    if await _is_elsewhere(tx):
        await learn_place(tx)
    # Copied first, for other threads add to them.
    if ids := set(numbers := known.numbers.copy()):
        known.unsure.update(ids)
        rows = await tx.all("find_numbers", {"namespace_id": tx.namespace_id, "ids": list(ids)})
        # A run with another number may be another run, which got the id meanwhile.
        known.again.update(row[0] for row in rows if numbers[row[0]] != row[1])
        found_again = {row[0]: row[1] for row in rows if numbers[row[0]] == row[1]}
        known.numbers = _but(known.numbers, ids) | found_again
    if lanes := set(known.lanes.copy()):
        found = replace(known, lanes={})
        await find_lanes(Transaction(tx.execute, tx.blocks, found), list(lanes))
        known.lanes = _but(known.lanes, lanes) | found.lanes


def _but(known: dict[K, int], asked: set[K]) -> dict[K, int]:
    """The numbers that were learned while we asked. A new dict: a transaction that is under way keeps the old one."""
    return {key: number for key, number in known.copy().items() if key not in asked}


async def add_lanes(tx: Transaction, lanes: Iterable[Lane]) -> None:
    """Insert the lanes that are not known. Until the transaction is committed, only it remembers them."""
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
