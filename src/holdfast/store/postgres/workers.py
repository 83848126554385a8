"""Workers: registering, leaving, and ending the leases of dead ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.model import Instant, Lane, Registration, WorkerRecord
from holdfast.store.locks import ProcessLocks, host_name
from holdfast.store.subscribers import News

from .children import tell_missed
from .lanes import add_lanes, find_lanes
from .messages import move_strays
from .rows import worker_record
from .transactions import Row, Transaction, as_json

_HAS_LOCK, _LEASE_UNTIL, _NOW = 3, 6, 8


async def register_worker(
    tx: Transaction,
    locks: ProcessLocks,
    worker_id: str,
    lanes: Sequence[Lane],
    lease: int,
    registrations: Sequence[Registration],
    now: Instant | None,
) -> Instant:
    """Announce a worker. Its lock is taken first: a row without a lock could be taken for that of a dead worker."""
    params = {
        "namespace_id": tx.namespace_id,
        "id": worker_id,
        "host": host_name(),
        "pid": os.getpid(),
        "has_lock": locks.hold(worker_id),
        "lease": lease,
        "lanes": as_json([(lane.workflow, lane.version, lane.queue) for lane in lanes]),
        "now": now,
    }
    row = await tx.one("register_worker", params)
    assert row is not None
    at, generation = row
    tx.known.generations[worker_id] = generation
    await add_lanes(tx, lanes)
    declared = {(one.workflow, one.version): as_json(one.declared) for one in registrations}
    on_events = {(one.workflow, one.version): one.declared.on_event for one in registrations}
    versions = list(dict.fromkeys((lane.workflow, lane.version) for lane in lanes))
    await tx.all(
        "insert_registered",
        {
            "namespace_id": tx.namespace_id,
            "workflows": [workflow for workflow, _ in versions],
            "versions": [version for _, version in versions],
            "declared": [declared.get(one) for one in versions],
            "on_events": [on_events.get(one) for one in versions],
            "now": at,
        },
    )
    numbers = await find_lanes(tx, lanes)
    tx.known.holds(worker_id, numbers)
    await tx.all("wake_blocked", {"lanes": numbers, "now": at})
    tx.news |= News.WORK
    return int(at)


async def renew_lease(tx: Transaction, worker_id: str, lease: int, now: Instant | None) -> Instant | None:
    """Extend a lease. A worker that was reaped has no row to renew."""
    params = {"namespace_id": tx.namespace_id, "id": worker_id, "lease": lease, "now": now}
    row = await tx.one("renew_lease", params)
    return None if row is None else int(row[0])


class Dead(NamedTuple):
    """Workers that seem to be dead."""

    lapsed: list[str]
    """Registered workers whose lease has lapsed, or whose process is gone."""
    gone: dict[str, int]
    """Those of them whose process is gone, with the descriptor of the lock that was taken to make sure of it."""
    strangers: list[str]
    """Owners of runs that have no row: they left, or were reaped, while a claim of theirs was under way."""


class Fleet(NamedTuple):
    """Registered workers, as rows of list_workers, and owners of runs."""

    rows: Sequence[Row]
    owners: list[str]


async def read_fleet(tx: Transaction, now: Instant | None) -> Fleet:
    """Read the fleet. The owners come first: a worker that registers and claims between the two is no stranger."""
    owners = [owner for (owner,) in await tx.all("list_owners", {"namespace_id": tx.namespace_id})]
    return Fleet(await tx.all("list_workers", {"namespace_id": tx.namespace_id, "now": now}), owners)


def find_dead(fleet: Fleet, locks: ProcessLocks, worker_id: str) -> Dead:
    """Find dead workers in a fleet, and take their locks, which the caller has to let go. The fleet was read before,
    since reading may fail."""
    here = host_name()
    known = {worker_id, *(row[0] for row in fleet.rows)}
    dead = Dead([], {}, [owner for owner in fleet.owners if owner not in known])
    for row in fleet.rows:
        name, host = row[0], row[1]
        if name == worker_id:
            continue
        descriptor = locks.take_if_dead(name) if row[_HAS_LOCK] and host == here else None
        if descriptor is not None:
            dead.gone[name] = descriptor
        if descriptor is not None or row[_LEASE_UNTIL] < row[_NOW]:
            dead.lapsed.append(name)
    return dead


async def reap_workers(tx: Transaction, dead: Dead, now: Instant | None) -> list[str]:
    """Make the runs of dead workers due and remove the workers' rows. One that has renewed its lease since is not
    dead."""
    at = await tx.now(now)
    params = {"namespace_id": tx.namespace_id, "workers": dead.lapsed, "gone": list(dead.gone), "now": at}
    found = [name for name, is_dead in await tx.all("lock_dead", params) if is_dead] + dead.strangers
    if found:
        await _release(tx, found, at)
    for name in found:
        tx.known.generations.pop(name, None)
    return found


async def wake_missed(tx: Transaction, now: Instant | None) -> bool:
    """Find what two commits hid from each other: runs that wait for one that has ended, ends that followers were not
    told of, and messages for runs that had just ended or continued. Returns whether there was anything."""
    await tell_missed(tx)
    await move_strays(tx)
    if await tx.all("wake_missed", {"namespace_id": tx.namespace_id, "now": now}):
        tx.news |= News.WORK
    return bool(tx.news)


async def release_strays(
    tx: Transaction, worker_id: str, held: Sequence[str], generation: int | None, now: Instant | None
) -> list[str]:
    """Hand back runs that this worker got by a claim whose answer was lost.

    The generation is a fence: a claim that was sent before this and is executed after it does nothing; nor does this,
    if it is executed after a later release.
    """
    at = await tx.now(now)
    if generation is not None:
        params = {"namespace_id": tx.namespace_id, "id": worker_id, "generation": generation}
        if await tx.one("next_generation", params) is None:
            return []
    params = {"namespace_id": tx.namespace_id, "id": worker_id, "held": list(held), "now": at}
    strays = [run_id for (run_id,) in await tx.all("release_strays", params)]
    for run_id in strays:
        tx.known.numbers.pop(run_id, None)
    if strays:
        tx.news |= News.WORK
    return strays


async def remove_worker(tx: Transaction, worker_id: str) -> None:
    """Remove a worker. Runs that it still holds are treated like those of a dead one."""
    await _release(tx, [worker_id], await tx.now(None))
    tx.known.generations.pop(worker_id, None)
    tx.known.worker_lanes.pop(worker_id, None)
    tx.known.inbox_floors.pop(worker_id, None)


async def list_workers(tx: Transaction, locks: ProcessLocks) -> list[WorkerRecord]:
    """Every worker whose lease holds, except for those on this host whose processes are gone."""
    rows = await tx.all("list_workers", {"namespace_id": tx.namespace_id, "now": None})
    return [worker_record(row) for row in rows if row[_LEASE_UNTIL] >= row[_NOW] and not _is_gone(row, locks)]


def _is_gone(row: Row, locks: ProcessLocks) -> bool:
    return bool(row[_HAS_LOCK]) and row[1] == host_name() and locks.is_dead(row[0])


async def _release(tx: Transaction, worker_ids: Sequence[str], at: Instant) -> None:
    params = {"namespace_id": tx.namespace_id, "workers": list(worker_ids), "now": at}
    await tx.all("reap_workers", params)
    await tx.all("remove_worker", params)
    tx.news |= News.WORK
