"""Driving without a long-lived worker: take turns until a run waits, ends or the budget is spent.

A drive is a worker's session of its own, registered, renewed and removed like any other: two drives of one run at once
are as safe as two workers, and a drive that is cut off leaves what a killed worker leaves. There may be no other
worker, so each drive also ends the leases of the dead and matches events; a drive without a run's id also sweeps.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from holdfast.define import CHUNK_RUNS, HouseLogger
from holdfast.errors import LeaseLost, RunNotFound, UnknownWorkflow
from holdfast.model import Lane, RunRecord, RunStatus
from holdfast.store import Store, last_of

from .plan import Plan
from .session import Session
from .upkeep import sweep

_log = HouseLogger("holdfast.worker")
_PAUSE = 0.02
_PATIENCE = 5
"""How many seconds the answer to a claim may take when the budget is spent."""


@dataclass(frozen=True, slots=True)
class Driven:
    """The outcome of a drive."""

    reason: Literal["ended", "waiting", "budget"]
    """Why it stopped: the run ended, it waits for something, or there was no time left."""
    run_id: str | None = None
    """The run that was driven, or the last run that continues it."""
    status: RunStatus | None = None
    """The run's status now."""
    due_at: datetime | None = None
    """When the run wants to go on; None if it waits for a message, or for nothing."""
    taken: int = 0
    """How many runs the drive took on."""

    @property
    def done(self) -> bool:
        """Whether there is nothing left to drive."""
        return self.reason == "ended"


async def drive(session: Session, plan: Plan, run_id: str | None, seconds: float) -> Driven:
    """Drive one run and those that continue it; with None, drive whatever is due.

    The session is registered before, and is left when this returns.
    """
    is_late = False
    session.start(is_serving=False)
    _know_cancels(session)
    try:
        async with asyncio.timeout(seconds):
            # A drive that was killed leaves its runs to whoever comes next, perhaps to us.
            await plan.store.reap_workers(session.worker_id, now=plan.clock.store_time())
            while True:
                await _hold(session)
                held_until = session.lease.until
                await session.match()
                may_suspect = session.runs.may_suspect
                found = await _claim(session, run_id)
                await session.quiet()
                # If a timer rang during the last look, the run does not wait: it is about to go on.
                is_over = not found and not await _heard(session)
                # While the lease had lapsed nothing was looked for, even if it has been renewed by now.
                has_looked = not session.is_crowded and session.lease.has_held(held_until)
                if is_over and run_id is None and not may_suspect and await _is_any_due(session, plan):
                    # It is a suspect, which may not be claimed yet.
                    await asyncio.sleep(_PAUSE)
                elif is_over and has_looked and not session.is_busy:
                    last = None if run_id is None else await last_of(session.store, run_id)
                    if last is None or last.id == run_id:
                        break
                    # Another run continues it, and perhaps nobody else comes to drive that one.
                    run_id = last.id
            if run_id is None:
                await sweep(plan.store, plan.clock, plan.event_retention, session.swept)
    except TimeoutError:
        is_late = True
    finally:
        await session.stop()
        await session.clear()
    store = session.store
    if run_id is None:
        return Driven("budget" if is_late else "waiting", taken=session.taken)
    record = await last_of(store, run_id)
    if record is None and not session.taken:
        raise RunNotFound(
            f"there is no run {run_id!r} in the namespace {store.namespace!r} to drive; it was never started here, or "
            "was deleted after its retention"
        )
    if record is None:
        # It ended in this drive, and was not to be kept.
        return Driven("ended", run_id, None, taken=session.taken)
    if record.status.is_final:
        return Driven("ended", record.id, record.status, taken=session.taken)
    _check_served(record, plan)
    due_at = await _due_at(record, store)
    return Driven("budget" if is_late else "waiting", record.id, record.status, due_at, session.taken)


def _check_served(record: RunRecord, plan: Plan) -> None:
    """Raise UnknownWorkflow for a run that this worker can never drive: a caller that goes by `due_at` would call for
    ever."""
    lane = Lane(record.workflow, record.version, record.queue)
    if lane in plan.lanes:
        return
    served = ", ".join(
        f"{one.workflow!r} version {one.version!r} on {one.queue!r}"
        for one in sorted(plan.lanes)
        if one.workflow != CHUNK_RUNS.name
    )
    raise UnknownWorkflow(
        f"run {record.id} can't be driven by this worker: it needs {lane.workflow!r} version {lane.version!r} on queue "
        f"{lane.queue!r}, and the worker serves {served or 'nothing'}; the run is as it was, drive it with one that "
        "has its workflow in Worker(workflows=) and its queue in Worker(queues=)"
    )


async def _due_at(record: RunRecord, store: Store) -> datetime | None:
    """When a drive may find something to do: neither while the run is paused nor while another worker's lease holds."""
    if record.paused:
        return record.deadline_at
    if record.owner is None or record.due_at is None:
        return record.due_at
    leases = [worker.lease_until for worker in await store.list_workers() if worker.id == record.owner]
    return max(record.due_at, *leases) if leases else record.due_at


def _know_cancels(session: Session) -> None:
    """A step that is cancelled together with this drive has not failed: `asyncio.run` cancels everything at its end."""
    ours = asyncio.current_task()
    assert ours is not None
    before = ours.cancelling()
    session.runs.attempts.is_cancelled = lambda: ours.cancelling() > before


async def _hold(session: Session) -> None:
    """Wait while the lease has lapsed, until it is renewed or lost: meanwhile nothing is looked for and nothing
    begins."""
    while not session.lease.holds() and not session.ended.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(_PAUSE):
                await session.ended.wait()
    if session.ended.is_set():
        raise LeaseLost(
            f"the drive {session.worker_id} lost its lease: it stalled, or could not reach the store for that long, "
            "and other workers may have taken its runs over; drive again"
        )


async def _claim(session: Session, run_id: str | None) -> int:
    claim = asyncio.ensure_future(session.look() if run_id is None else session.claim_only(run_id))
    try:
        return await asyncio.shield(claim)
    except asyncio.CancelledError:
        # The budget is spent. Runs that the claim takes are handed back: left alone they would look like a crash.
        session.runs.is_stopping = True
        await asyncio.wait([claim], timeout=_PATIENCE)
        if claim.done() and (error := claim.exception()) is not None:
            _log.warning("the last claim of a drive came to nothing: %s", error)
        raise
    finally:
        claim.cancel()


async def _is_any_due(session: Session, plan: Plan) -> bool:
    due_at = await session.store.next_due(plan.lanes, now=plan.clock.store_time())
    return due_at is not None and due_at <= plan.clock.now()


async def _heard(session: Session) -> bool:
    """The last look before a run counts as waiting: whether anything new has come for a run that is held here."""
    if not session.runs.held:
        return False
    return session.runs.deliver(await session.read_inbox())
