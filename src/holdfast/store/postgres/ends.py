"""Ending runs from outside, and what follows from that: inboxes are freed, parents are told, waiting runs begin."""

from __future__ import annotations

from holdfast.model import (
    FORCED,
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

from .runs import get_run
from .transactions import Transaction


async def live_run(tx: Transaction, run_id: str) -> Live | None:
    """What decides how the run can be ended, or None. The run is locked."""
    row = await tx.one("find_live", {"namespace_id": tx.namespace_id, "id": run_id})
    return None if row is None else Live.of(row)


async def newest_of(tx: Transaction, run: Live) -> Live:
    """The run, or the newest of its chain if it has continued as new. It is locked."""
    while run.status is RunStatus.CONTINUED:
        row = await tx.one("find_newest", {"namespace_id": tx.namespace_id, "id": run.id})
        newest = None if row is None or row[0] == run.id else await live_run(tx, row[0])
        if newest is None:
            break
        run = newest
    return run


async def cancel_run(
    tx: Transaction, run_id: str, reason: str | None, force: bool, now: Instant | None
) -> RunRecord | None:
    """End the run, or ask it to end. Returns the record as it was before."""
    run = await live_run(tx, run_id)
    # If it was continued, maybe by a commit that the lock has waited for, the newest run of the chain is asked.
    run = None if run is None else await newest_of(tx, run)
    before = None if run is None else await get_run(tx, run.id)
    if before is None or run is None:
        return None
    if not run.status.is_final:
        at = await tx.now(now)
        if force:
            await _end_by_force(tx, run, reason, at)
        elif not run.has_begun:
            await end_unbegun(tx, run, reason, at)
        else:
            await send_cancel(tx, run, reason, at)
    return before


async def find_cancel(tx: Transaction, run_id: str) -> Message | None:
    """The cancel that waits in the run's inbox."""
    row = await tx.one("find_cancel", {"namespace_id": tx.namespace_id, "id": run_id})
    return None if row is None else Message(*row)


async def send_cancel(tx: Transaction, run: Live, reason: str | None, at: Instant) -> None:
    """Ask a begun run to end."""
    payload = (reason or "").encode()
    await tx.all("cancel_run", {"run": run.number, "payload": payload, "now": at})
    tx.news |= News.WORK


async def end_unbegun(tx: Transaction, run: Live, reason: str | None, at: Instant) -> None:
    """End a run that no worker has ever had: there is nobody to fence out, so its epoch stays."""
    await _end(tx, run, run.next_seq or 0, run.epoch, [cancelled(at, reason)], at)


async def _end_by_force(tx: Transaction, run: Live, reason: str | None, at: Instant) -> None:
    """Take the run over and end it in one row: whoever holds it finds its next seq taken."""
    while True:
        rows = await tx.all("read_journal", {"namespace_id": tx.namespace_id, "id": run.id})
        seq = rows[-1][0] + 1 if rows else 0
        undone = skipped((row[-1] for row in rows), run.due_at) if run.has_begun else ()
        # A turn of the owner may come first. Then it counts, and this row comes after it.
        if await _end(
            tx, run, seq, run.epoch + 1, [Claimed(at, FORCED), cancelled(at, reason, undone, run.is_blocked)], at
        ):
            return


async def _end(tx: Transaction, run: Live, seq: int, epoch: int, entries: list[Entry], at: Instant) -> bool:
    row = {"runs": [run.number], "seqs": [seq], "epochs": [epoch], "ats": [at], "datas": [encode_entries(entries)]}
    if not await tx.all("commit_turns", row):
        return False
    ended = {"run": run.number, "next_seq": seq + 1, "epoch": epoch, "now": at, "longest": tx.known.max_retention}
    await tx.all("end_run", ended)
    await tx.all("free_inboxes", {"runs": [run.number]})
    await tx.all("tell_ends", {"runs": [run.number]})
    await tx.all("wake_heirs", {"namespace_id": tx.namespace_id, "ids": [run.id], "now": at})
    tx.news |= News.WORK | News.ENDS
    return True
