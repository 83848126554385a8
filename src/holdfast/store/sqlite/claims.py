"""Claims: a worker takes runs, with their journals and inboxes, in a fixed number of statements.

A run that was not handed back gets a `claimed` row at its next seq, so that its former holder finds that seq taken.
Messages that come with a claim are no longer fresh: a message that a run leaves in its inbox when it is parked does not
wake it a second time. So a worker that hands a run back without having looked at its inbox hands it back due.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from holdfast.errors import LeaseLost
from holdfast.model import Claimed, ClaimedRun, Instant, JournalRow, Lane, Message, encode_entries

from .rows import claimed_run
from .transactions import Row, Transaction, as_json

MOST_NUMBERS = 200_000
"""How many runs' numbers are remembered. Beyond that all are forgotten, and looked up again when they are needed."""
MOST_MESSAGES = 1_000
"""How many of the oldest messages of a lane and priority a claim looks at. One run may have many."""
PACKED = 256 * 1024
"""The most bytes that an input or a turn may have to be packed with the others of a claim: see claims.sql."""
_ALL = -1


def claim_runs(
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
    """Choose, take, fence, read."""
    at = tx.now(now)
    _refuse_the_reaped(tx, worker_id)
    params = {
        "namespace_id": tx.namespace_id, "lanes": lanes_json(lanes), "limit": limit, "run_id": run_id,
        "unbegun": unbegun, "suspects": suspects, "packed": PACKED, "most": MOST_MESSAGES, "now": at,
    }  # fmt: skip  # one line a group reads better here
    found = tx.packed(["claim_runs" if run_id is None else "claim_run"], params)
    if not found:
        return []
    chosen = sorted(found, key=lambda row: (-row[_PRIORITY], row[_DUE_AT], row[0]))
    numbers = as_json([row[0] for row in chosen])
    tx.run("take_runs", {"owner": worker_id, "runs": numbers, "now": at})
    _fence(tx, chosen, worker_id, at)
    if len(tx.numbers) > MOST_NUMBERS:
        tx.numbers.clear()
    for row in chosen:
        tx.remember(row[1], row[0])
    inputs = _large_inputs(tx, [row[0] for row in chosen if row[_INPUT] is None])
    next_seqs = [_next_seq(row) for row in chosen]
    journals = _journals(
        tx, [row[0] for row, next_seq in zip(chosen, next_seqs, strict=True) if _is_wanted(row, next_seq, cached)]
    )
    inboxes = _inboxes(tx, {row[0]: row[1] for row in chosen if row[_HAS_MESSAGES]})
    return [
        claimed_run(
            row, at, inputs.get(row[0]), next_seq, tuple(journals.get(row[0], ())), tuple(inboxes.get(row[0], ()))
        )
        for row, next_seq in zip(chosen, next_seqs, strict=True)
    ]


def next_due(tx: Transaction, lanes: Sequence[Lane], suspects: bool, now: Instant | None) -> Instant | None:
    """When to claim next."""
    at = tx.now(now)
    params = {"namespace_id": tx.namespace_id, "lanes": lanes_json(lanes), "suspects": suspects, "now": at}
    row = tx.one("next_due", params)
    due_at: Instant | None = None if row is None else row[0]
    if now is None and due_at is not None and due_at <= at:
        # What is due by the store's clock is due, even if the caller's clock is behind.
        return 0
    return due_at


def read_inbox(tx: Transaction, worker_id: str, known: Sequence[int]) -> list[Message]:
    """Fresh messages for the runs that a worker holds. Reading leaves them fresh: they stay so until a turn takes
    them."""
    params = {"namespace_id": tx.namespace_id, "owner": worker_id, "known": as_json(known)}
    return [Message(*row) for row in tx.all("read_inbox", params)]


def lanes_json(lanes: Sequence[Lane]) -> str:
    """Lanes in the form that the statements read."""
    return as_json([(lane.workflow, lane.version, lane.queue) for lane in lanes])


def _refuse_the_reaped(tx: Transaction, worker_id: str) -> None:
    """Raise LeaseLost for a worker that had a row and has none any more, whatever its own clock says."""
    if any(row[0] == worker_id for row in tx.all("list_workers", {"namespace_id": tx.namespace_id})):
        tx.workers.add(worker_id)
    elif worker_id in tx.workers:
        tx.workers.discard(worker_id)
        raise LeaseLost(f"the worker {worker_id} was taken for dead and can claim nothing; register it anew")


_INPUT, _PRIORITY, _HAS_MESSAGES, _DUE_AT = 7, 11, 21, 22


def _next_seq(row: Row) -> int:
    stored, last = row[5], row[6]
    if stored is not None:
        return int(stored)
    # The fence itself stands at last + 1.
    return 1 if last is None else int(last) + 2


def _is_wanted(row: Row, next_seq: int, cached: Mapping[str, int]) -> bool:
    if next_seq == 0:
        return False
    return row[5] is None or cached.get(row[1]) != next_seq


def _fence(tx: Transaction, chosen: Sequence[Row], worker_id: str, at: Instant) -> None:
    data = encode_entries([Claimed(at, worker_id)])
    fences = [(row[0], _next_seq(row) - 1, row[4] + 1, at, data) for row in chosen if row[5] is None]
    if fences:
        tx.rows("commit_turns", fences)


def _large_inputs(tx: Transaction, numbers: list[int]) -> Mapping[int, bytes]:
    return dict(tx.all("read_large_inputs", {"runs": as_json(numbers)})) if numbers else {}


def _journals(tx: Transaction, numbers: list[int]) -> Mapping[int, list[JournalRow]]:
    found: defaultdict[int, list[JournalRow]] = defaultdict(list)
    if numbers:
        try:
            rows = tx.packed(["read_journals"], {"runs": as_json(numbers), "packed": PACKED})
        except sqlite3.DataError:
            # Small ones, but together they are larger than a string can be.
            rows = _large_rows(tx, numbers, _ALL)
        else:
            large = {number for number, *_, data in rows if data is None}
            rows = [row for row in rows if row[-1] is not None] + _large_rows(tx, large, PACKED)
        for number, seq, epoch, at, data in sorted(rows):
            found[number].append(JournalRow(seq, epoch, at, data if isinstance(data, bytes) else bytes.fromhex(data)))
    return found


def _large_rows(tx: Transaction, numbers: Iterable[int], packed: int) -> list[Row]:
    return [row for number in numbers for row in tx.all("read_large_rows", {"run": number, "packed": packed})]


def _inboxes(tx: Transaction, ids: Mapping[int, str]) -> Mapping[int, list[Message]]:
    found: defaultdict[int, list[Message]] = defaultdict(list)
    if ids:
        runs = as_json(list(ids))
        for number, message_id, *rest in tx.all("read_inboxes", {"runs": runs}):
            found[number].append(Message(message_id, ids[number], *rest))
        tx.run("see_messages", {"runs": runs})
    return found
