"""Pausing runs, and removing ended ones with everything they own. A live run is never removed."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, Swept
from holdfast.store.subscribers import News

from .children import tell_followers
from .messages import move_strays
from .transactions import BEGINNING, Row, Transaction


async def pause_runs(tx: Transaction, run_ids: Sequence[str], paused: bool, now: Instant | None) -> list[str]:
    """Set the flag, and tell the owners of those runs that somebody holds."""
    params = {"namespace_id": tx.namespace_id, "ids": list(run_ids), "paused": paused}
    rows = await tx.all("pause_runs", params)
    changed = {row[0]: row[1] for row in rows}
    if changed:
        payload = b"paused" if paused else b"resumed"
        given = {"runs": list(changed.values()), "payload": payload, "now": await tx.now(now)}
        await tx.all("send_pauses", given)
        tx.news |= News.WORK
    return [run_id for run_id in dict.fromkeys(run_ids) if run_id in changed]


async def delete_runs(tx: Transaction, run_ids: Sequence[str]) -> list[str]:
    """Remove those of the runs that have ended."""
    await tx.one("lock_removals", {"namespace_id": tx.namespace_id})
    rows = await tx.all("find_ended", {"namespace_id": tx.namespace_id, "ids": list(run_ids)})
    gone = await _remove(tx, rows)
    return [run_id for run_id in dict.fromkeys(run_ids) if run_id in gone]


async def sweep(tx: Transaction, limit: int, events_before: Instant, now: Instant | None) -> Swept:
    """Remove bounded batches of runs whose retention is over, oldest first, of old events, and of their message ids.

    Runs of chains that an open transaction has sent to are left. The next sweep begins behind them, lest the oldest
    of such runs keep all others of the namespace. When a sweep has come to the end, the next one begins anew.
    """
    await tx.one("lock_removals", {"namespace_id": tx.namespace_id})
    at = await tx.now(now)
    after_at, after_number = tx.known.swept
    params = {"namespace_id": tx.namespace_id, "now": at, "after_at": after_at, "after_number": after_number}
    rows = await tx.all("sweep", {**params, "limit": limit})
    gone = await _remove(tx, [row[:3] for row in rows])
    # A hint: what is skipped because this is not committed comes with the next look from the beginning.
    is_on = len(rows) == limit and (len(gone) < limit or tx.known.swept != BEGINNING)
    tx.known.swept = (rows[-1][3], rows[-1][0]) if is_on else BEGINNING
    params = {"namespace_id": tx.namespace_id, "before": events_before, "limit": limit}
    events = [event for (event,) in await tx.all("remove_events", params)]
    if events:
        await tx.all("forget_events", {"events": events})
        await tx.all("delete_probes", {"events": events})
    ids = len(await tx.all("remove_event_ids", params))
    return Swept(tuple(gone), len(events), max(len(rows), len(events), ids) < limit)


async def _remove(tx: Transaction, rows: Sequence[Row]) -> list[str]:
    """Remove runs, except for those of chains that live on and that open transactions of callers have sent to.

    Messages to them that belong to a run that goes on are moved there first, and followers that missed their ends are
    told: afterwards nobody could. What belongs to their chains is removed by a later statement, which sees which runs
    are left.
    """
    chains = list(dict.fromkeys(chain_id for _, _, chain_id in rows))
    asked = {"namespace_id": tx.namespace_id, "chains": chains}
    busy = {chain_id for (chain_id,) in await tx.all("hold_chains", asked)} if rows else set()
    rows = [row for row in rows if row[2] not in busy]
    await move_strays(tx)
    if rows:
        numbers = [number for number, _, _ in rows]
        await tell_followers(tx, numbers, chains)
        await tx.all("give_back_keys", {"namespace_id": tx.namespace_id, "runs": numbers})
        await tx.all("remove_runs", {"namespace_id": tx.namespace_id, "runs": numbers})
        await tx.all("remove_chains", asked)
    for _, run_id, _ in rows:
        tx.known.numbers.pop(run_id, None)
    return [run_id for _, run_id, _ in rows]
