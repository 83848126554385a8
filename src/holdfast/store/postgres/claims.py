"""Claims: a worker takes runs, with their journals and inboxes, in a fixed number of statements.

A run that was not handed back gets a `claimed` row at its next seq, so that its former holder finds that seq taken.
Messages that come with a claim are no longer fresh: a message that a run leaves in its inbox when it is parked does not
wake it a second time. So a worker that hands a run back without having looked at its inbox hands it back due.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from holdfast.errors import LeaseLost
from holdfast.model import Claimed, ClaimedRun, Instant, JournalRow, Lane, Message, encode_entries

from .floors import BOTTOM, Floor
from .lanes import find_lanes
from .messages import move_strays
from .rows import claimed_run
from .transactions import Row, Transaction

MOST_MESSAGES = 1_000
"""How many of the oldest messages of a lane and priority a claim looks at. One run may have many."""
MOST_NUMBERS = 200_000
"""How many runs' numbers are remembered. Beyond that all are forgotten, and looked up again when they are needed."""
_REACH = 4
"""A claim looks at so many times its limit, since runs that others have locked are left to them."""
_NUMBER, _ID, _EPOCH, _STORED_SEQ, _PRIORITY, _CHAIN_ID = 0, 1, 4, 5, 10, 14
_HAS_MESSAGES, _DUE_AT, _NOW, _EARLIEST = 20, 21, 22, 27
_IS_STRAY = 8


async def claim_runs(
    tx: Transaction,
    worker_id: str,
    lanes: Sequence[Lane],
    limit: int,
    run_id: str | None,
    cached: Mapping[str, int],
    unbegun: bool,
    suspects: int | None,
    now: Instant | None,
) -> list[ClaimedRun]:
    """Take runs, fence them, and read what comes with them."""
    numbers = await find_lanes(tx, lanes)
    floor = tx.known.floor(numbers)
    tx.known.is_clock_given = now is not None
    first = floor.begin() if now is None and run_id is None else BOTTOM
    begun = time.monotonic_ns()
    params = {
        "namespace_id": tx.namespace_id,
        "owner": worker_id,
        "generation": tx.known.generations.get(worker_id),
        "lanes": numbers,
        "limit": limit,
        "reach": limit if unbegun else limit * _REACH,
        "most": MOST_MESSAGES,
        "unbegun": unbegun,
        "suspects": suspects,
        "run_id": run_id,
        "of_any_lane": not lanes,
        "now": now,
        "floor": first,
    }
    taken = sorted(
        await tx.all("claim_runs" if run_id is None else "claim_run", params),
        key=lambda row: (-row[_PRIORITY], row[_DUE_AT], row[_NUMBER]),
    )
    if not taken:
        await _refuse_the_reaped(tx, worker_id)
        return []
    if now is None and run_id is None:
        floor.seen(first, taken[0][_EARLIEST], taken[0][_NOW], time.monotonic_ns() - begun)
    tx.known.holds(worker_id, numbers if lanes else None)
    next_seqs = await _fenced(tx, taken, worker_id)
    if len(tx.known.numbers) > MOST_NUMBERS:
        # A new dict: a commit that is under way goes on with the old one.
        tx.known.numbers = {}
    for row in taken:
        tx.known.remember(row[_ID], row[_NUMBER])
    journals = await _journals(tx, [row[_NUMBER] for row in taken if _is_wanted(row, next_seqs, cached)])
    told = [row for row in taken if row[_HAS_MESSAGES]]
    if any(row[_CHAIN_ID] != row[_ID] for row in told):
        # Messages that were sent earlier may still be in the inbox of the run that one of these continues.
        await move_strays(tx, first)
    inboxes = await _inboxes(tx, {row[_NUMBER]: row[_ID] for row in told})
    return [
        claimed_run(
            row[:_EARLIEST],
            next_seqs[row[_NUMBER]],
            tuple(journals.get(row[_NUMBER], ())),
            tuple(inboxes.get(row[_NUMBER], ())),
        )
        for row in map(tuple, taken)
    ]


async def next_due(tx: Transaction, lanes: Sequence[Lane], suspects: bool, now: Instant | None) -> Instant | None:
    """When to claim next. It also learns where claims may begin to look."""
    numbers = await find_lanes(tx, lanes)
    floor = tx.known.floor(numbers)
    first = floor.begin() if now is None else BOTTOM
    begun = time.monotonic_ns()
    row = await tx.one("next_due", {"lanes": numbers, "suspects": int(suspects), "now": now, "floor": first})
    assert row is not None
    due_at: Instant | None
    due_at, in_sight, at = row
    if now is not None:
        return due_at
    floor.seen(first, in_sight, at, time.monotonic_ns() - begun)
    # What is due by the database's clock is due, even if the caller's clock is behind.
    return 0 if due_at is not None and due_at <= at else due_at


async def read_inbox(tx: Transaction, worker_id: str, known: Sequence[int]) -> list[Message]:
    """Fresh messages for the runs that a worker holds. Reading leaves them fresh: they stay so until a turn takes
    them."""
    lanes = tx.known.worker_lanes.get(worker_id)
    floor = tx.known.inbox_floors.setdefault(worker_id, Floor())
    first = BOTTOM if tx.known.is_clock_given else floor.begin()
    begun = time.monotonic_ns()
    asked = None if lanes is None else sorted(lanes)
    params = {
        "namespace_id": tx.namespace_id, "owner": worker_id, "lanes": asked, "floor": first, "known": list(known)
    }  # fmt: skip  # one line a group reads better here
    rows = await tx.all("read_inbox", params)
    if any(row[_IS_STRAY] for row in rows):
        # So the run that goes on after an ended one reads these before what was sent to it later.
        await move_strays(tx, first)
        rows = await tx.all("read_inbox", params)
    found = [Message(*row[:_IS_STRAY]) for row in rows if row[_IS_STRAY] is False]
    earliest = min((message.sent_at for message in found), default=None)
    floor.seen(first, earliest, rows[0][-1], time.monotonic_ns() - begun)
    return found


async def _refuse_the_reaped(tx: Transaction, worker_id: str) -> None:
    """Raise LeaseLost for a worker that had a row and has none any more, whatever its own clock says."""
    if worker_id in tx.known.generations:
        rows = await tx.all("list_workers", {"namespace_id": tx.namespace_id, "now": None})
        if all(row[0] != worker_id for row in rows):
            del tx.known.generations[worker_id]
            raise LeaseLost(f"the worker {worker_id} was taken for dead and can claim nothing; register it anew")


async def _fenced(tx: Transaction, taken: Sequence[Row], worker_id: str) -> dict[int, int]:
    """The next seq of each run. A run that was not handed back first gets its `claimed` row."""
    next_seqs: dict[int, int] = {row[_NUMBER]: row[_STORED_SEQ] for row in taken if row[_STORED_SEQ] is not None}
    left = {row[_NUMBER]: row for row in taken if row[_STORED_SEQ] is None}
    while left:
        seqs = {run: 0 if last is None else last + 1 for run, last in await tx.all("last_seqs", {"runs": list(left)})}
        params = {
            "runs": list(seqs),
            "seqs": list(seqs.values()),
            "epochs": [left[run][_EPOCH] for run in seqs],
            "ats": [left[run][_NOW] for run in seqs],
            "datas": [encode_entries([Claimed(left[run][_NOW], worker_id)]) for run in seqs],
        }
        # A stale turn may be on its way to the same place: whichever comes second waits for the first and looks again.
        for (run,) in await tx.all("commit_turns", params):
            next_seqs[run] = seqs[run] + 1
            del left[run]
    return next_seqs


def _is_wanted(row: Row, next_seqs: Mapping[int, int], cached: Mapping[str, int]) -> bool:
    next_seq = next_seqs[row[_NUMBER]]
    if next_seq == 0:
        return False
    return row[_STORED_SEQ] is None or cached.get(row[_ID]) != next_seq


async def _journals(tx: Transaction, numbers: list[int]) -> Mapping[int, list[JournalRow]]:
    found: defaultdict[int, list[JournalRow]] = defaultdict(list)
    if numbers:
        for number, seq, epoch, at, data in await tx.all("read_journals", {"runs": numbers}):
            found[number].append(JournalRow(seq, epoch, at, data))
    return found


async def _inboxes(tx: Transaction, ids: Mapping[int, str]) -> Mapping[int, list[Message]]:
    found: defaultdict[int, list[Message]] = defaultdict(list)
    if ids:
        for number, message_id, *rest in await tx.all("read_inboxes", {"runs": list(ids)}):
            found[number].append(Message(message_id, ids[number], *rest))
    return found
