"""Pausing runs, and removing ended ones with everything they own.

A live run is never removed. Nor is the first run of a chain while another run of the chain is kept: the chain has its
id, which must stay found, and must not be given to another run.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, Swept
from holdfast.store.subscribers import News

from .children import tell_followers
from .messages import move_strays
from .transactions import BEGINNING, Row, Transaction

FOR_EVER: Instant = 1 << 62
"""What is added to the time at which a run expires, while a chain that lives on keeps it: so a sweep does not come by
it again."""


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
    gone, _, _ = await _remove(tx, rows)
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
    gone, kept, is_more = await _remove(tx, [row[:3] for row in rows])
    if kept:
        await tx.all("put_off_removals", {"runs": kept, "for_ever": FOR_EVER})
    # A hint: what is skipped because this is not committed comes with the next look from the beginning.
    is_on = len(rows) == limit and (len(gone) + len(kept) < limit or tx.known.swept != BEGINNING)
    tx.known.swept = (rows[-1][3], rows[-1][0]) if is_on else BEGINNING
    params = {"namespace_id": tx.namespace_id, "before": events_before, "limit": limit}
    events = [event for (event,) in await tx.all("remove_events", params)]
    if events:
        await tx.all("forget_events", {"events": events})
        await tx.all("delete_probes", {"events": events})
    ids = len(await tx.all("remove_event_ids", params))
    return Swept(tuple(gone), len(events), not is_more and max(len(rows), len(events), ids) < limit)


async def _remove(tx: Transaction, rows: Sequence[Row]) -> tuple[list[str], list[int], bool]:
    """Remove runs, except for first runs of chains that are kept, and for those of chains that live on and that open
    transactions of callers have sent to.

    Returns the ids of those that are gone, the numbers of the first runs that stay, and whether runs that had stayed
    may go now. Messages to runs that belong to a run that goes on are moved there first, and followers that missed
    their ends are told: afterwards nobody could. What belongs to their chains is removed by a later statement, which
    sees which runs are left.
    """
    chains = list(dict.fromkeys(chain_id for _, _, chain_id in rows))
    asked = {"namespace_id": tx.namespace_id, "chains": chains}
    busy = {chain_id for (chain_id,) in await tx.all("hold_chains", asked)} if rows else set()
    rows = [row for row in rows if row[2] not in busy]
    kept = await _kept_firsts(tx, rows)
    rows = [row for row in rows if row[0] not in kept]
    await move_strays(tx)
    is_more = False
    if rows:
        numbers = [number for number, _, _ in rows]
        await tell_followers(tx, numbers, chains)
        await tx.all("give_back_keys", {"namespace_id": tx.namespace_id, "runs": numbers})
        await tx.all("remove_runs", {"namespace_id": tx.namespace_id, "runs": numbers})
        await tx.all("remove_chains", asked)
        is_more = await _take_up_removals(tx, rows)
    for _, run_id, _ in rows:
        tx.known.forget_removed(run_id)
    return [run_id for _, run_id, _ in rows], kept, is_more


async def _kept_firsts(tx: Transaction, rows: Sequence[Row]) -> list[int]:
    """Those of the runs with which chains began of which runs stay. A statement of its own: it sees the successor of a
    run whose row was waited for."""
    firsts = {chain_id: number for number, run_id, chain_id in rows if run_id == chain_id}
    if not firsts:
        return []
    asked = {"namespace_id": tx.namespace_id, "chains": list(firsts), "runs": [number for number, _, _ in rows]}
    return [firsts[chain_id] for (chain_id,) in await tx.all("find_kept_chains", asked)]


async def _take_up_removals(tx: Transaction, gone: Sequence[Row]) -> bool:
    """Let the first runs go of those chains of which now no other run is left. Returns whether there are any."""
    chains = {chain_id for _, _, chain_id in gone}.difference(run_id for _, run_id, _ in gone)
    if not chains:
        return False
    asked = {"namespace_id": tx.namespace_id, "chains": list(chains), "runs": []}
    left = chains.difference([chain_id for (chain_id,) in await tx.all("find_kept_chains", asked)])
    params = {"namespace_id": tx.namespace_id, "ids": list(left), "for_ever": FOR_EVER}
    return bool(left) and bool(await tx.all("take_up_removals", params))
