"""Starting runs: many by one statement, with or without keys; one by one those that may take a key from its holder.

A free key is taken by the insert itself: however many processes start with it at the same time, one run is created.
What "restart", "replace" and a retry do about a held key is decided under a lock on that key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from holdfast.model import Instant, Lane, NewRun, RunStatus, StartedRun
from holdfast.store.lives import Live
from holdfast.store.starts import is_takeover, parts_of
from holdfast.store.subscribers import News

from .ends import end_unbegun, live_run, newest_of, send_cancel
from .lanes import add_lanes, find_lanes
from .rows import STATUS
from .transactions import Transaction, as_json

T = TypeVar("T")


class Creation(NamedTuple):
    """A run to insert, and the run that has to end before it begins, if any."""

    run: NewRun
    after_run_id: str | None = None


async def start_runs(tx: Transaction, runs: Sequence[NewRun], now: Instant | None) -> list[StartedRun]:
    """Create the runs that do not exist yet. A start that is sent again finds its own run, with created=False."""
    return [answer for part in parts_of(runs) for answer in await _start_part(tx, runs[part], now)]


async def _start_part(tx: Transaction, runs: Sequence[NewRun], now: Instant | None) -> list[StartedRun]:
    rows = await tx.all("find_ids", {"namespace_id": tx.namespace_id, "ids": [run.id for run in runs]})
    known = {id: StartedRun(id, STATUS[status], created=False) for id, status in rows}
    free: dict[str, NewRun] = {}
    for run in runs:
        if run.id not in known and not is_takeover(run):
            free.setdefault(run.id, run)
    created = await create_runs(tx, [Creation(run) for run in free.values()], now)
    answers: list[StartedRun] = []
    for run in runs:
        if run.id in created:
            answers.append(StartedRun(run.id, RunStatus.PENDING, created=True))
            # The same id may occur again in this call.
            created.discard(run.id)
            known[run.id] = StartedRun(run.id, RunStatus.PENDING, created=False)
        elif run.id in known:
            answers.append(known[run.id])
        else:
            answers.append(await start_keyed(tx, run, now))
            if answers[-1].created:
                known[run.id] = StartedRun(run.id, RunStatus.PENDING, created=False)
    return answers


async def start_keyed(tx: Transaction, run: NewRun, now: Instant | None) -> StartedRun:
    """Start a run whose key is held, or may be held."""
    assert run.key is not None
    if (kept := await _kept(tx, run)) is not None:
        return kept
    await tx.one("lock_key", {"namespace_id": tx.namespace_id, "key": f"{run.workflow}/{run.key}"})
    while True:
        again = await live_run(tx, run.id)
        if again is not None:
            return StartedRun(again.id, again.status, created=False)
        holder = await _holder(tx, run.workflow, run.key)
        if run.takes_key_of is not None:
            # If nobody holds the key any more, a run that took it over was removed since.
            giver = holder or await live_run(tx, run.takes_key_of)
            if giver is None or giver.id != run.takes_key_of or not giver.status.is_final:
                return await _instead(tx, run.takes_key_of, holder)
        after: str | None = None
        if holder is not None:
            # Whether the holder lives is decided by the last run of its chain. A holder that continued as another
            # workflow still has the key, which belongs to its own workflow's name.
            last = await newest_of(tx, holder)
            if run.takes_key_of is None and not await _gives_way(tx, last, run):
                return StartedRun(holder.id, holder.status, created=False)
            if last.status.is_final:
                after = await _still_before(tx, last)
            else:
                # With "restart", the holder is a child that was called off, and has its cancel already.
                after = last.id if run.on_conflict == "restart" else await _replace(tx, last, run.id, await tx.now(now))
            await tx.all("drop_key", {"namespace_id": tx.namespace_id, "workflow": run.workflow, "key": run.key})
        if await create_runs(tx, [Creation(run, after)], now):
            return StartedRun(run.id, RunStatus.PENDING, created=True)
        # The key was free, and then another start took it: look again.


async def _kept(tx: Transaction, run: NewRun) -> StartedRun | None:
    """The holder of the key, if it is merely to be returned. It is not locked here, for in a caller's transaction it
    would stand still until the caller commits."""
    if run.takes_key_of is not None or run.on_conflict == "replace":
        return None
    asked = {"namespace_id": tx.namespace_id, "workflow": run.workflow, "key": run.key}
    row = await tx.one("see_holder", asked)
    if row is None:
        return None
    holder = StartedRun(row[0], STATUS[row[1]], created=False)
    # If a child is asked for, the holder may be one that its parent's end has called off, unless it has completed.
    is_done = run.parent_key is not None and holder.status is RunStatus.COMPLETED
    is_left = run.on_conflict != "restart" or (run.parent_key is None and not holder.status.is_final)
    return holder if is_left or is_done else None


async def _instead(tx: Transaction, wanted: str, holder: Live | None) -> StartedRun:
    """The answer if the key can't be taken over: the run that holds it, or else the run that was to give it up."""
    found = holder or await live_run(tx, wanted)
    if found is None:
        # It was deleted meanwhile: the caller will ask for it and get None.
        return StartedRun(wanted, RunStatus.CANCELLED, created=False)
    return StartedRun(found.id, found.status, created=False)


async def _gives_way(tx: Transaction, last: Live, run: NewRun) -> bool:
    """Whether the holder of a key has to leave it to the run that asks for it."""
    if run.parent_key is not None and last.status is RunStatus.COMPLETED:
        # A later try of the parent asks for its child anew, and that has done its work already.
        return False
    if run.on_conflict != "restart" or last.status.is_final:
        return run.on_conflict in ("restart", "replace")
    # A live holder keeps its key, unless it is a child that its parent's end has called off: nobody can wait for that.
    called_off = {"run": last.number, "namespace_id": tx.namespace_id}
    return run.parent_key is not None and await tx.one("find_called_off", called_off) is not None


async def _replace(tx: Transaction, old: Live, new_id: str, at: Instant) -> str | None:
    """Cancel the live holder of a key. Returns the run that the new one has to wait for, if any."""
    reason = f"replaced by run {new_id}"
    if not old.has_begun:
        await end_unbegun(tx, old, reason, at)
        return await _still_before(tx, old)
    await send_cancel(tx, old, reason, at)
    return old.id


async def _still_before(tx: Transaction, ended: Live) -> str | None:
    """The run that an ended holder still had to wait for when it ended. If that run lives, the new one waits for it."""
    before = await live_run(tx, ended.after_run_id) if ended.after_run_id else None
    if before is None:
        return None
    # It may have continued as new since: only runs that were still waiting were made to wait for the successor.
    last = await newest_of(tx, before)
    return None if last.status.is_final else last.id


async def _holder(tx: Transaction, workflow: str, key: str) -> Live | None:
    row = await tx.one("find_holder", {"namespace_id": tx.namespace_id, "workflow": workflow, "key": key})
    return None if row is None else Live.of(row)


async def create_runs(tx: Transaction, creations: Sequence[Creation], now: Instant | None) -> set[str]:
    """Insert the runs whose keys are free, and return their ids."""
    if not creations:
        return set()
    started = await tx.all("start_runs", {**await columns_of(tx, creations), "now": now})
    if started:
        tx.news |= News.WORK
    created: dict[str, int] = {row[0]: row[1] for row in started}
    retries = [run for run, _ in creations if run.is_retry and run.id in created]
    if retries:
        numbers = tx.lanes
        moved = {
            "namespace_id": tx.namespace_id,
            "ids": [run.forked_from for run in retries],
            "chain_ids": [run.chain_id for run in retries],
            "runs": [created[run.id] for run in retries],
            "lanes": [numbers[Lane(run.workflow, run.version, run.queue)] for run in retries],
        }
        await tx.all("move_unread", moved)
    # A given time may have passed long ago: then the run is due below the floor from which claims look.
    times = [tx.since, *(at for run, _ in creations for at in (run.due_at, run.deadline_at))]
    tx.since = min((at for at in times if at is not None), default=None)
    return set(created)


async def columns_of(tx: Transaction, creations: Sequence[Creation]) -> dict[str, Any]:
    """What is inserted for new runs, column by column. New lanes are inserted."""
    runs = [creation.run for creation in creations]
    asked = {Lane(run.workflow, run.version, run.queue) for run in runs}
    if not asked <= tx.lanes.keys():
        await add_lanes(tx, asked)
        await find_lanes(tx, list(asked))
    lanes = tx.lanes
    return {
        "namespace_id": tx.namespace_id,
        "ids": [run.id for run in runs],
        "workflows": [run.workflow for run in runs],
        "lanes": [lanes[Lane(run.workflow, run.version, run.queue)] for run in runs],
        "priorities": [run.priority for run in runs],
        "delays": _few(run.delay for run in runs),
        "due_ats": _few(run.due_at for run in runs),
        "deadlines": _few(run.deadline for run in runs),
        "deadline_ats": _few(run.deadline_at for run in runs),
        "next_seqs": [len(run.rows) for run in runs],
        "after_run_ids": _few(creation.after_run_id for creation in creations),
        "inputs": [run.input for run in runs],
        "seeds": [await _seed(tx, run) for run in runs],
        "keys": _few(run.key for run in runs),
        "tags": [as_json(run.tags) if run.tags else "{}" for run in runs],
        "retentions": _few(run.retention for run in runs),
        "chain_ids": _few(run.chain_id for run in runs),
        "parent_ids": _few(run.parent_id for run in runs),
        "parent_keys": _few(run.parent_key for run in runs),
        "on_parent_ends": _few(run.on_parent_end for run in runs),
        "forked_froms": _few(run.forked_from for run in runs),
        "traces": _few(run.trace for run in runs),
        "origin_ids": _few(run.origin_id for run in runs),
        "own_retentions": [run.has_own_retention for run in runs],
        "journal_ids": [run.id for run in runs for _ in run.rows],
        "journal_seqs": [seq for run in runs for seq in range(len(run.rows))],
        "journal_datas": [data for run in runs for data in run.rows],
    }


def _few(column: Iterable[T | None]) -> list[T | None]:
    """The column; an empty one if it holds only nulls, as most do. `unnest` fills up arrays that are shorter than
    others."""
    given = list(column)
    return given if any(value is not None for value in given) else []


async def _seed(tx: Transaction, run: NewRun) -> bytes:
    if not run.keeps_seed:
        return run.seed
    row = await tx.one("find_seed", {"namespace_id": tx.namespace_id, "id": run.forked_from})
    return run.seed if row is None else bytes(row[0])
