"""Pausing runs, and removing ended ones with everything they own. A live run is never removed."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, Swept
from holdfast.store.subscribers import News

from .messages import insert_messages
from .transactions import Row, Transaction, as_json


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
    return _delete(tx, tx.all("find_ended", params))


def sweep(tx: Transaction, limit: int, events_before: Instant, now: Instant | None) -> Swept:
    """Remove bounded batches of runs whose retention is over, oldest first, of old events, and of their message ids."""
    params = {"namespace_id": tx.namespace_id, "now": tx.now(now), "limit": limit, "before": events_before}
    gone = _delete(tx, tx.all("sweep", params))
    events = [event_id for (event_id,) in tx.all("delete_events", params)]
    if events:
        tx.run("forget_events", {"ids": as_json(events)})
        tx.run("delete_probes", {"ids": as_json(events)})
    ids = tx.run("delete_event_ids", params)
    return Swept(tuple(gone), len(events), is_all=max(len(gone), len(events), ids) < limit)


def _delete(tx: Transaction, found: Sequence[Row]) -> list[str]:
    if not found:
        return []
    params = {"namespace_id": tx.namespace_id, "runs": as_json([number for number, _, _ in found])}
    tx.run("give_back_keys", params)
    owned = ("delete_keys", "delete_journals", "delete_messages", "delete_hook_ids", "delete_hooks", "drop_followers")
    for name in owned:
        tx.run(name, params)
    # Their waits were removed when they ended.
    tx.run("delete_starts", params)
    tx.run("delete_runs", params)
    for _, run_id, _ in found:
        tx.numbers.pop(run_id, None)
    asked = as_json(list({chain_id for _, _, chain_id in found}))
    empty = [one for (one,) in tx.all("find_empty_chains", {"namespace_id": tx.namespace_id, "chains": asked})]
    if empty:
        params["chains"] = as_json(empty)
        for name in ("delete_values", "delete_items", "delete_taken", "delete_signal_ids"):
            tx.run(name, params)
    return [run_id for _, run_id, _ in found]
