"""Managing: pausing what lives, and removing what has ended with everything it owns."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, Swept
from holdfast.store.subscribers import News

from .children import tell_followers
from .messages import move_strays
from .transactions import Row, Transaction


async def pause_runs(tx: Transaction, run_ids: Sequence[str], paused: bool, now: Instant | None) -> list[str]:
    """Set the flag, and tell whoever holds one of them."""
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
    """Those that have ended."""
    await tx.one("lock_removals", {"namespace_id": tx.namespace_id})
    rows = await tx.all("find_ended", {"namespace_id": tx.namespace_id, "ids": list(run_ids)})
    gone = await _remove(tx, rows)
    return [run_id for run_id in dict.fromkeys(run_ids) if run_id in gone]


async def sweep(tx: Transaction, limit: int, events_before: Instant, now: Instant | None) -> Swept:
    """Some of what is kept no longer: runs, events, and messages that nobody will read."""
    await tx.one("lock_removals", {"namespace_id": tx.namespace_id})
    at = await tx.now(now)
    rows = await tx.all("sweep", {"namespace_id": tx.namespace_id, "now": at, "limit": limit})
    gone = await _remove(tx, rows)
    params = {"namespace_id": tx.namespace_id, "before": events_before, "limit": limit}
    events = len(await tx.all("remove_events", params))
    ids = len(await tx.all("remove_event_ids", params))
    return Swept(tuple(gone), events, max(len(gone), events, ids) < limit)


async def _remove(tx: Transaction, rows: Sequence[Row]) -> list[str]:
    """Take runs away, but for those of chains that live on and are just sent to by callers.

    What was sent to them and belongs to a run that goes on is moved there first, and those who missed their ends are
    told: afterwards nobody can. What belongs to their chains goes by a later statement, which sees what is left.
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
