"""Waits: what turns register and close, for the outside to see."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, NewWait, WaitRecord

from .rows import wait_record
from .transactions import Transaction


async def register_waits(tx: Transaction, waits: Sequence[tuple[int, NewWait, Instant]]) -> None:
    """Waits of turns: the run's number, the wait, the time."""
    # One of a number: of two that a batch gives, the later.
    last = {(run, wait.number): (wait, at) for run, wait, at in waits}
    params = {
        "namespace_id": tx.namespace_id,
        "runs": [run for run, _ in last],
        "numbers": [number for _, number in last],
        "kinds": [wait.kind for wait, _ in last.values()],
        "names": [wait.name for wait, _ in last.values()],
        "matches": [wait.match for wait, _ in last.values()],
        "probes": [wait.probe or b"" for wait, _ in last.values()],
        "schemas": [wait.schema for wait, _ in last.values()],
        "tokens": [wait.token for wait, _ in last.values()],
        "expires_ats": [wait.expires_at for wait, _ in last.values()],
        "ats": [at for _, at in last.values()],
    }
    await tx.all("register_waits", params)


async def close_waits(tx: Transaction, closed: Sequence[tuple[int, int]]) -> None:
    """Waits that are over. In one order, as whoever delivers to several locks them."""
    asked = sorted(set(closed))
    params = {
        "namespace_id": tx.namespace_id,
        "runs": [run for run, _ in asked],
        "numbers": [number for _, number in asked],
    }
    await tx.all("close_waits", params)


async def read_waits(tx: Transaction, run_id: str) -> list[WaitRecord]:
    """Of the newest run of the chain."""
    rows = await tx.all("read_waits", {"namespace_id": tx.namespace_id, "id": run_id})
    return [wait_record(row) for row in rows]
