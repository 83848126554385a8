"""Starting runs: those without a key all together, those with a key one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.model import Instant, Lane, NewRun, RunStatus, StartedRun
from holdfast.store.lives import Live
from holdfast.store.starts import parts_of
from holdfast.store.subscribers import News

from .chains import chain_start, find_chain
from .ends import end_unbegun, live_run
from .rows import STATUS
from .transactions import Row, Transaction, as_json


def start_runs(tx: Transaction, runs: Sequence[NewRun], now: Instant | None) -> list[StartedRun]:
    """Create the runs that do not exist yet. A start that is sent again finds its own run, with created=False."""
    at = tx.now(now)
    return [answer for part in parts_of(runs) for answer in _start_part(tx, runs[part], at)]


def _start_part(tx: Transaction, runs: Sequence[NewRun], at: Instant) -> list[StartedRun]:
    known = {
        id: StartedRun(id, STATUS[status], created=False)
        for id, status in tx.all(
            "find_ids", {"namespace_id": tx.namespace_id, "ids": as_json([run.id for run in runs])}
        )
    }
    free: list[NewRun] = []
    answers: list[StartedRun | None] = []
    for run in runs:
        found = known.get(run.id)
        if found is None and run.key is None:
            free.append(run)
            found = StartedRun(run.id, RunStatus.PENDING, created=True)
            known[run.id] = StartedRun(run.id, RunStatus.PENDING, created=False)
        answers.append(found)
    if free:
        _create(tx, [Creation(run) for run in free], at)
        tx.news |= News.WORK
    return [_start_keyed(tx, run, at) if answer is None else answer for run, answer in zip(runs, answers, strict=True)]


class Creation(NamedTuple):
    """A run to insert, and the run that has to end before it begins, if any."""

    run: NewRun
    after_run_id: str | None = None


def _start_keyed(tx: Transaction, run: NewRun, at: Instant) -> StartedRun:
    assert run.key is not None
    # The same id may have come earlier in this very call.
    again = live_run(tx, run.id)
    if again is not None:
        return StartedRun(again.id, again.status, created=False)
    holder = _holder(tx, run.workflow, run.key)
    if run.takes_key_of is not None:
        # If nobody holds the key any more, a run that took it over was removed since.
        giver = holder or live_run(tx, run.takes_key_of)
        if giver is None or giver.id != run.takes_key_of or not giver.status.is_final:
            return _instead(tx, run.takes_key_of, holder)
    after: str | None = None
    if holder is not None:
        # Whether the holder lives is decided by the last run of its chain. A holder that continued as another workflow
        # still has the key, which belongs to its own workflow's name.
        last = _last_of(tx, holder)
        if run.takes_key_of is None and not _gives_way(tx, last, run):
            return StartedRun(holder.id, holder.status, created=False)
        if last.status.is_final:
            after = _still_before(tx, last)
        else:
            # With "restart" the holder is a child that was called off, and has its cancel already.
            after = last.id if run.on_conflict == "restart" else _replace(tx, last, run.id, at)
    number = _create(tx, [Creation(run, after)], at)
    tx.run("hold_key", {"namespace_id": tx.namespace_id, "workflow": run.workflow, "key": run.key, "run": number})
    tx.news |= News.WORK
    return StartedRun(run.id, RunStatus.PENDING, created=True)


def _instead(tx: Transaction, wanted: str, holder: Live | None) -> StartedRun:
    """The answer if the key can't be taken over: the run that holds it, or else the run that was to give it up."""
    found = holder or live_run(tx, wanted)
    if found is None:
        # It was deleted meanwhile: the caller will ask for it and get None.
        return StartedRun(wanted, RunStatus.CANCELLED, created=False)
    return StartedRun(found.id, found.status, created=False)


def _gives_way(tx: Transaction, last: Live, run: NewRun) -> bool:
    """Whether the holder of a key has to leave it to the run that asks for it."""
    if run.parent_key is not None and last.status is RunStatus.COMPLETED:
        # A later try of the parent asks for its child anew, and that has done its work already.
        return False
    if run.on_conflict != "restart" or last.status.is_final:
        return run.on_conflict in ("restart", "replace")
    # A live holder keeps its key, unless it is a child that its parent's end has called off: nobody can wait for that.
    called_off = {"run": last.number, "namespace_id": tx.namespace_id}
    return run.parent_key is not None and tx.one("find_called_off", called_off) is not None


def _replace(tx: Transaction, old: Live, new_id: str, at: Instant) -> str | None:
    """Cancel the live holder of a key. Returns the run that the new one has to wait for, if any."""
    reason = f"replaced by run {new_id}"
    if not old.has_begun:
        end_unbegun(tx, old, reason, at)
        return _still_before(tx, old)
    tx.run("cancel_run", {"run": old.number, "payload": reason.encode(), "now": at})
    return old.id


def _still_before(tx: Transaction, ended: Live) -> str | None:
    """The run that an ended holder still had to wait for when it ended. If that run lives, the new one waits for it."""
    before = live_run(tx, ended.after_run_id) if ended.after_run_id else None
    if before is None:
        return None
    # It may have continued as new since: only runs that were still waiting were made to wait for the successor.
    last = _last_of(tx, before)
    return None if last.status.is_final else last.id


def _last_of(tx: Transaction, run: Live) -> Live:
    """The run, or the newest of its chain if it has continued as new."""
    chain = find_chain(tx, run.id) if run.status is RunStatus.CONTINUED else None
    return run if chain is None else live_run(tx, chain.run_id) or run


def _holder(tx: Transaction, workflow: str, key: str) -> Live | None:
    row = tx.one("find_holder", {"namespace_id": tx.namespace_id, "workflow": workflow, "key": key})
    return None if row is None else Live.of(row)


def _create(tx: Transaction, creations: Sequence[Creation], at: Instant) -> int:
    """Insert the runs and return the number of the last."""
    found = tx.one("last_number", {})
    first = 1 + (found[0] if found else 0)
    lanes: dict[Lane, int] = {}
    for run, _ in creations:
        lane = Lane(run.workflow, run.version, run.queue)
        if lane not in lanes:
            lanes[lane] = lane_id(tx, lane)
    numbered = list(enumerate(creations, first))
    tx.rows("start_runs", [_run_row(tx, number, creation, lanes, at) for number, creation in numbered])
    tx.rows("insert_starts", [_start_row(tx, number, creation.run, at) for number, creation in numbered])
    journal = [
        (number, seq, 0, at, data) for number, creation in numbered for seq, data in enumerate(creation.run.rows)
    ]
    if journal:
        tx.rows("commit_turns", journal)
    for number, (run, _) in numbered:
        if run.is_retry:
            to = {"run": number, "lane_id": lanes[Lane(run.workflow, run.version, run.queue)]}
            of = {"namespace_id": tx.namespace_id, "id": run.forked_from, "chain_id": run.chain_id}
            tx.run("move_unread", {**of, **to})
    return first + len(creations) - 1


def create_run(tx: Transaction, run: NewRun, at: Instant) -> tuple[int, int]:
    """Insert one run without regard to its key; returns the numbers of the run and of its lane."""
    return _create(tx, [Creation(run)], at), lane_id(tx, Lane(run.workflow, run.version, run.queue))


def _due_at(run: NewRun, at: Instant) -> Instant:
    """When the run was asked to begin."""
    return at + run.delay if run.due_at is None else run.due_at


def _first_due(run: NewRun, after: str | None, at: Instant) -> Instant | None:
    """When the run is to be claimed: to begin, or to be ended because its deadline came first."""
    times = [] if after else [_due_at(run, at)]
    deadline_at = _deadline_at(run, at)
    if deadline_at is not None:
        times.append(deadline_at)
    return min(times, default=None)


def _deadline_at(run: NewRun, at: Instant) -> Instant | None:
    if run.deadline_at is None and run.deadline is not None:
        return at + run.deadline
    return run.deadline_at


def _run_row(tx: Transaction, number: int, creation: Creation, lanes: Mapping[Lane, int], at: Instant) -> Row:
    run, after = creation
    return (
        number,
        tx.namespace_id,
        run.id,
        lanes[Lane(run.workflow, run.version, run.queue)],
        run.priority,
        _first_due(run, after, at),
        len(run.rows),
        at,
        _deadline_at(run, at),
        after,
    )


def _start_row(tx: Transaction, number: int, run: NewRun, at: Instant) -> Row:
    is_first = run.chain_id is None or run.chain_id == run.id
    kept = tx.one("find_seed", {"namespace_id": tx.namespace_id, "id": run.forked_from}) if run.keeps_seed else None
    return (
        number,
        _due_at(run, at),
        run.input,
        run.seed if kept is None else kept[0],
        run.key,
        as_json(run.tags) if run.tags else "{}",
        run.retention,
        None if is_first else run.chain_id,
        None if is_first or run.chain_id is None else chain_start(tx, run.chain_id),
        run.parent_id,
        run.parent_key,
        run.on_parent_end,
        run.forked_from,
        run.trace,
        run.has_own_retention,
        run.origin_id,
    )


def lane_id(tx: Transaction, lane: Lane) -> int:
    """The lane's number. A new lane is inserted."""
    params = {"namespace_id": tx.namespace_id, "workflow": lane.workflow, "version": lane.version, "queue": lane.queue}
    row = tx.one("find_lane", params)
    if row is None:
        tx.run("insert_lane", params)
        row = tx.one("find_lane", params)
        assert row is not None
    return int(row[0])
