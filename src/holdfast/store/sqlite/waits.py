"""Waits and hooks: registering, closing, and payloads for tokens. Whoever deletes a hook's row is first to resume
it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.model import Instant, NewWait, Sent, WaitRecord
from holdfast.store.subscribers import News

from .chains import find_chain
from .messages import insert_messages, is_known, remember
from .rows import wait_record
from .transactions import Row, Transaction, as_json

_BECAME = {"used": Sent.USED, "closed": Sent.EXPIRED, "ended": Sent.ENDED}


def register_waits(tx: Transaction, waits: Sequence[tuple[int, NewWait]], at: Instant) -> None:
    """Register the waits of turns. From now on, whoever matches events looks at them."""
    tx.rows("register_waits", [_row(run, wait, at) for run, wait in waits])
    if any(wait.kind == "event" for _, wait in waits):
        tx.news |= News.WORK


def _row(run: int, wait: NewWait, at: Instant) -> Row:
    probe = "" if wait.probe is None else wait.probe.hex()
    return (
        run, wait.number, wait.kind, wait.name, wait.match, probe, wait.schema, wait.token, wait.expires_at, at,
    )  # fmt: skip


def close_waits(tx: Transaction, waits: Sequence[tuple[int, int]]) -> None:
    """Remove waits that are over for their runs: (run, number)."""
    _bury(tx, tx.all("close_waits", {"waits": as_json(list(waits))}), "closed")
    tx.news |= News.VALUES


def drop_waits(tx: Transaction, runs: Sequence[int]) -> None:
    """Remove all waits of runs that have ended."""
    _bury(tx, tx.all("drop_waits", {"runs": as_json(list(runs))}), "ended")


def _bury(tx: Transaction, gone: Iterable[Row], became: str) -> None:
    """Remember what became of deleted hooks, to tell whoever comes with their tokens."""
    rows = [(tx.namespace_id, token, run, became) for token, run in gone if token is not None]
    if rows:
        tx.rows("bury_hooks", rows)


def read_waits(tx: Transaction, run_id: str) -> list[WaitRecord]:
    """The waits of the live run of the chain."""
    chain = find_chain(tx, run_id)
    return [] if chain is None else [wait_record(row) for row in tx.all("read_waits", {"run": chain.run})]


def find_hook(tx: Transaction, token: str) -> WaitRecord | None:
    """The open hook with this token's digest."""
    row = tx.one("find_hook", {"namespace_id": tx.namespace_id, "token": token})
    return None if row is None else wait_record(row[:-2])


def resume_hook(
    tx: Transaction, token: str, payload: bytes, message_id: str | None, trace: str | None, now: Instant | None
) -> Sent:
    """Deliver a payload to an open hook, or say why that can't be done."""
    at = tx.now(now)
    scope = f"hook/{token}"
    if is_known(tx, scope, message_id):
        return Sent.DUPLICATE
    params = {"namespace_id": tx.namespace_id, "token": token}
    row = tx.one("find_hook", params)
    if row is None:
        used = tx.one("find_used_hook", params)
        return Sent.MISSING if used is None else _BECAME[used[0]]
    hook = wait_record(row[:-2])
    if hook.expires_at is not None and hook.expires_at <= at:
        return Sent.EXPIRED
    wait_id, run = row[-2:]
    tx.run("resume_hook", {"id": wait_id})
    _bury(tx, [(token, run)], "used")
    remember(tx, scope, message_id, at)
    insert_messages(tx, [(run, "hook", hook.name, payload, at, hook.number, trace)])
    return Sent.SENT
