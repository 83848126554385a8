"""Ending runs from outside, and what follows from every end: parents and followers are told, children are asked to end,
inboxes and waits are freed, and runs that waited for the end begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.model import (
    FORCED,
    ChildEnd,
    Claimed,
    Entry,
    Instant,
    Message,
    RunRecord,
    RunStatus,
    encode_entries,
    skipped,
)
from holdfast.store.lives import Live, cancelled
from holdfast.store.subscribers import News

from .chains import find_chain
from .messages import insert_messages
from .runs import get_run
from .transactions import Row, Transaction, as_json
from .waits import drop_waits


def live_run(tx: Transaction, run_id: str) -> Live | None:
    """What decides how the run can be ended, or None."""
    row = tx.one("find_live", {"namespace_id": tx.namespace_id, "id": run_id})
    return None if row is None else Live.of(row)


def cancel_run(tx: Transaction, run_id: str, reason: str | None, force: bool, now: Instant | None) -> RunRecord | None:
    """End the run or ask it to end; of a run that continued as new, the last of its chain. Returns the record as it was
    before."""
    at = tx.now(now)
    before = get_run(tx, run_id)
    if before is not None and before.status is RunStatus.CONTINUED and (chain := find_chain(tx, run_id)) is not None:
        before = get_run(tx, chain.run_id)
    run = None if before is None else live_run(tx, before.id)
    if before is None or run is None:
        return None
    if not run.status.is_final:
        if force:
            _end_by_force(tx, run, reason, at)
        elif not run.has_begun:
            end_unbegun(tx, run, reason, at)
        else:
            payload = (reason or "").encode()
            tx.run("cancel_run", {"run": run.number, "payload": payload, "now": at})
            tx.news |= News.WORK
    return before


def find_cancel(tx: Transaction, run_id: str) -> Message | None:
    """The cancel that waits in the run's inbox."""
    row = tx.one("find_cancel", {"namespace_id": tx.namespace_id, "id": run_id})
    return None if row is None else Message(*row)


def end_unbegun(tx: Transaction, run: Live, reason: str | None, at: Instant) -> None:
    """End a run that no worker has ever had: there is nobody to fence out, so its epoch stays."""
    _end(tx, run, run.next_seq or 0, run.epoch, [cancelled(at, reason)], at)


def _end_by_force(tx: Transaction, run: Live, reason: str | None, at: Instant) -> None:
    """Take the run over and end it in one row: whoever holds it finds its next seq taken."""
    rows = tx.all("read_journal", {"namespace_id": tx.namespace_id, "id": run.id})
    seq = rows[-1][0] + 1 if rows else 0
    undone = skipped((row[-1] for row in rows), run.due_at) if run.has_begun else ()
    _end(tx, run, seq, run.epoch + 1, [Claimed(at, FORCED), cancelled(at, reason, undone, run.is_blocked)], at)


def _end(tx: Transaction, run: Live, seq: int, epoch: int, entries: list[Entry], at: Instant) -> None:
    tx.rows("commit_turns", [(run.number, seq, epoch, at, encode_entries(entries))])
    ended = {"run": run.number, "next_seq": seq + 1, "epoch": epoch, "now": at, "longest": tx.max_retention}
    tx.run("end_run", ended)
    after_ends(tx, [(run.number, run.id)], at)


def after_ends(tx: Transaction, ended: Sequence[tuple[int, str]], at: Instant) -> None:
    """Do what the ends of runs mean for others, in the same commit. Nobody is told of a run that continued as new."""
    numbers = [number for number, _ in ended]
    runs = as_json(numbers)
    ids = {"namespace_id": tx.namespace_id, "ids": as_json([run_id for _, run_id in ended]), "now": at}
    ties = tx.one("find_ties", {"runs": runs})
    has_inbox, has_waits, is_told, has_children, has_joined, is_awaited = ties or (True,) * 6
    if is_told:
        rows = [told(run, key, end, at) for run, key, *end in tx.all("find_told", {"runs": runs})]
        if rows:
            insert_messages(tx, rows)
    if has_children:
        tx.run("cancel_children", ids)
    if has_waits:
        drop_waits(tx, numbers)
    if is_told or has_joined:
        tx.run("drop_followers", {"runs": runs})
    if is_told or has_inbox:
        # Also what one of them was told just now about another's end.
        tx.run("free_inboxes", {"runs": runs})
        # What is left waits for a retry: until then it wakes nobody.
        tx.run("see_messages", {"runs": runs})
    if is_awaited:
        tx.run("wake_heirs", ids)
    tx.news |= News.ENDS
    if has_children or is_awaited:
        tx.news |= News.WORK


def told(run: int, key: str, end: Sequence[Any], at: Instant) -> Row:
    """The row of a message that tells a run of another's end, which is (id, status, output, error)."""
    return (run, "child", key, msgspec.msgpack.encode(ChildEnd(*end)), at, None, None)
