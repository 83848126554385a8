"""Workers: registering, leaving, and ending the leases of dead ones."""

from __future__ import annotations

import os
from collections.abc import Sequence

from holdfast.model import Instant, Lane, Registration, WorkerRecord
from holdfast.store.locks import ProcessLocks, host_name
from holdfast.store.subscribers import News

from .claims import lanes_json
from .rows import worker_record
from .starts import lane_id
from .transactions import Row, Transaction, as_json


def register_worker(
    tx: Transaction,
    locks: ProcessLocks,
    worker_id: str,
    lanes: Sequence[Lane],
    lease: int,
    registrations: Sequence[Registration],
    now: Instant | None,
) -> Instant:
    """Announce a worker. Its lock is taken first: a row without a lock could be taken for that of a dead worker."""
    at = tx.now(now)
    asked = lanes_json(lanes)
    params = {
        "namespace_id": tx.namespace_id,
        "id": worker_id,
        "host": host_name(),
        "pid": os.getpid(),
        "has_lock": locks.hold(worker_id),
        "now": at,
        "lease_until": at + lease,
        "lanes": asked,
    }
    tx.run("register_worker", params)
    declared = {(one.workflow, one.version): one.declared for one in registrations}
    for lane in lanes:
        lane_id(tx, lane)
    for workflow, version in dict.fromkeys((lane.workflow, lane.version) for lane in lanes):
        said = declared.get((workflow, version))
        tx.run(
            "insert_registered",
            {
                "namespace_id": tx.namespace_id,
                "workflow": workflow,
                "version": version,
                "now": at,
                "declared": None if said is None else as_json(said),
                "on_event": None if said is None else said.on_event,
            },
        )
    tx.run("wake_blocked", {"namespace_id": tx.namespace_id, "lanes": asked, "now": at})
    tx.news |= News.WORK
    return at


def renew_lease(tx: Transaction, worker_id: str, lease: int, now: Instant | None) -> Instant | None:
    """Extend a lease. A worker that was reaped has no row to renew."""
    at = tx.now(now)
    params = {"namespace_id": tx.namespace_id, "id": worker_id, "now": at, "lease_until": at + lease}
    return at if tx.run("renew_lease", params) else None


def seem_dead(tx: Transaction, locks: ProcessLocks, worker_id: str, now: Instant | None) -> bool:
    """Whether a reap would find dead workers. It only reads, so that looking for them takes no write lock."""
    dead, taken = _find_dead(tx, locks, worker_id, tx.now(now))
    for descriptor in taken.values():
        os.close(descriptor)
    return bool(dead)


def reap_workers(tx: Transaction, locks: ProcessLocks, worker_id: str, now: Instant | None) -> list[str]:
    """Make the runs of dead workers due and remove the workers' rows. Their locks are held meanwhile, so that nobody
    else does the same."""
    at = tx.now(now)
    dead, taken = _find_dead(tx, locks, worker_id, at)
    try:
        if dead:
            _release(tx, dead, at)
    except BaseException:
        for descriptor in taken.values():
            os.close(descriptor)
        raise
    # crash or rollback from here on: a row without a file is reaped when its lease lapses.
    for name, descriptor in taken.items():
        locks.drop(name, descriptor)
    return dead


def release_strays(tx: Transaction, worker_id: str, held: Sequence[str], now: Instant | None) -> list[str]:
    """Hand back runs that this worker got by a claim whose answer was lost."""
    params = {"namespace_id": tx.namespace_id, "id": worker_id, "held": as_json(list(held)), "now": tx.now(now)}
    strays = [run_id for (run_id,) in tx.all("release_strays", params)]
    for run_id in strays:
        tx.numbers.pop(run_id, None)
    if strays:
        tx.news |= News.WORK
    return strays


def remove_worker(tx: Transaction, worker_id: str) -> None:
    """Remove a worker. Runs that it still holds are treated like those of a dead one."""
    _release(tx, [worker_id], tx.now(None))


def list_workers(tx: Transaction, locks: ProcessLocks) -> list[WorkerRecord]:
    """Every worker whose lease holds, except for those on this host whose processes are gone."""
    now = tx.now(None)
    rows = tx.all("list_workers", {"namespace_id": tx.namespace_id})
    return [worker_record(row) for row in rows if row[_LEASE_UNTIL] >= now and not _is_gone(row, locks)]


_HAS_LOCK, _LEASE_UNTIL = 3, 6


def _is_gone(row: Row, locks: ProcessLocks) -> bool:
    return bool(row[_HAS_LOCK]) and row[1] == host_name() and locks.is_dead(row[0])


def _find_dead(tx: Transaction, locks: ProcessLocks, worker_id: str, at: Instant) -> tuple[list[str], dict[str, int]]:
    """The ids of dead workers, and the locks that were taken to make sure of it, which the caller has to let go.

    A worker is dead if its lease has lapsed, if its process is gone, or if it owns runs but has no row: then its claim
    came after it was reaped. Locks are taken after everything is read, since reading may fail.
    """
    rows = tx.all("list_workers", {"namespace_id": tx.namespace_id})
    owners = [owner for (owner,) in tx.all("list_owners", {"namespace_id": tx.namespace_id})]
    here = host_name()
    known = {worker_id, *(row[0] for row in rows)}
    dead = [owner for owner in owners if owner not in known]
    taken: dict[str, int] = {}
    for row in rows:
        name, host = row[0], row[1]
        if name == worker_id:
            continue
        descriptor = locks.take_if_dead(name) if row[_HAS_LOCK] and host == here else None
        if descriptor is not None:
            taken[name] = descriptor
        if descriptor is not None or row[_LEASE_UNTIL] < at:
            dead.append(name)
    return dead, taken


def _release(tx: Transaction, worker_ids: Sequence[str], at: Instant) -> None:
    params = {"namespace_id": tx.namespace_id, "workers": as_json(list(worker_ids)), "now": at}
    tx.run("reap_workers", params)
    tx.run("remove_worker", params)
    tx.news |= News.WORK
