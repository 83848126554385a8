"""Pausing runs, and removing ended ones with everything they own.

A live run is never removed. Nor is the first run of a chain while another run of the chain is kept: the chain has its
id, which must stay found, and must not be given to another run.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, Swept
from holdfast.store.subscribers import News

from .messages import insert_messages
from .transactions import Row, Transaction, as_json

FOR_EVER: Instant = 1 << 62
"""What is added to the time at which a run expires, while a chain that lives on keeps it: so a sweep does not come by
it again."""


def pause_runs(tx: Transaction, run_ids: Sequence[str], paused: bool, now: Instant | None) -> list[str]:
    """Set the flag. The owner of a held run gets a message that says what holds now; any other run is simply claimed or
    not claimed."""
    params = {"namespace_id": tx.namespace_id, "ids": as_json(list(run_ids)), "paused": paused}
    changed = tx.all("pause_runs", params)
    if changed:
        at = tx.now(now)
        payload = b"paused" if paused else b"resumed"
        tx.run("drop_pauses", {"runs": as_json([number for number, _, _ in changed])})
        told = [(number, "pause", None, payload, at, None, None) for number, _, owner in changed if owner is not None]
        if told:
            insert_messages(tx, told)
        tx.news |= News.WORK
    ids = {run_id for _, run_id, _ in changed}
    return [run_id for run_id in dict.fromkeys(run_ids) if run_id in ids]


def delete_runs(tx: Transaction, run_ids: Sequence[str]) -> list[str]:
    """Remove those of the runs that have ended."""
    params = {"namespace_id": tx.namespace_id, "ids": as_json(list(dict.fromkeys(run_ids)))}
    gone, _, _ = _delete(tx, tx.all("find_ended", params))
    return gone


def sweep(tx: Transaction, limit: int, events_before: Instant, now: Instant | None) -> Swept:
    """Remove bounded batches of runs whose retention is over, oldest first, of old events, and of their message ids."""
    params = {"namespace_id": tx.namespace_id, "now": tx.now(now), "limit": limit, "before": events_before}
    gone, kept, is_more = _delete(tx, tx.all("sweep", params))
    if kept:
        tx.run("put_off_removals", {"runs": as_json(kept), "for_ever": FOR_EVER})
    events = [event_id for (event_id,) in tx.all("delete_events", params)]
    if events:
        tx.run("forget_events", {"ids": as_json(events)})
        tx.run("delete_probes", {"ids": as_json(events)})
    ids = tx.run("delete_event_ids", params)
    return Swept(tuple(gone), len(events), not is_more and max(len(gone) + len(kept), len(events), ids) < limit)


def _delete(tx: Transaction, found: Sequence[Row]) -> tuple[list[str], list[int], bool]:
    """Remove runs, except for first runs of chains that are kept.

    Returns the ids of those that are gone, the numbers of those that stay, and whether runs that had stayed may go now.
    """
    kept = _kept_firsts(tx, found)
    found = [row for row in found if row[0] not in kept]
    if not found:
        return [], kept, False
    params = {"namespace_id": tx.namespace_id, "runs": as_json([number for number, _, _ in found])}
    tx.run("give_back_keys", params)
    owned = ("delete_keys", "delete_journals", "delete_messages", "delete_hook_ids", "delete_hooks", "drop_followers")
    for name in owned:
        tx.run(name, params)
    # Their waits were removed when they ended.
    tx.run("delete_starts", params)
    tx.run("delete_runs", params)
    for _, run_id, _ in found:
        tx.forget_removed(run_id)
    asked = as_json(list({chain_id for _, _, chain_id in found}))
    empty = [one for (one,) in tx.all("find_empty_chains", {"namespace_id": tx.namespace_id, "chains": asked})]
    if empty:
        params["chains"] = as_json(empty)
        for name in ("delete_values", "delete_items", "delete_taken", "delete_signal_ids"):
            tx.run(name, params)
    return [run_id for _, run_id, _ in found], kept, _take_up_removals(tx, found)


def _kept_firsts(tx: Transaction, rows: Sequence[Row]) -> list[int]:
    """Those of the runs with which chains began of which runs stay."""
    firsts = {chain_id: number for number, run_id, chain_id in rows if run_id == chain_id}
    if not firsts:
        return []
    runs = as_json([number for number, _, _ in rows])
    asked = {"namespace_id": tx.namespace_id, "chains": as_json(list(firsts)), "runs": runs}
    return [firsts[chain_id] for (chain_id,) in tx.all("find_kept_chains", asked)]


def _take_up_removals(tx: Transaction, gone: Sequence[Row]) -> bool:
    """Let the first runs go of those chains of which now no other run is left. Returns whether there are any."""
    chains = {chain_id for _, _, chain_id in gone}.difference(run_id for _, run_id, _ in gone)
    if not chains:
        return False
    asked = {"namespace_id": tx.namespace_id, "chains": as_json(list(chains)), "runs": as_json([])}
    left = chains.difference([chain_id for (chain_id,) in tx.all("find_kept_chains", asked)])
    params = {"namespace_id": tx.namespace_id, "ids": as_json(list(left)), "for_ever": FOR_EVER}
    return bool(left) and bool(tx.all("take_up_removals", params))
