"""Waits and hooks: registering, closing, and payloads for tokens.

Of those who resume a hook, the first to insert its mark wins. Between that one and the hook's run, which may close the
hook, the delete of its row decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, NewWait, Sent, WaitRecord
from holdfast.store.subscribers import News

from .messages import hold_chain
from .rows import wait_record
from .transactions import Transaction


async def register_waits(tx: Transaction, waits: Sequence[tuple[int, NewWait, Instant]]) -> None:
    """Register the waits of turns: (run, wait, time)."""
    # If a batch registers two waits with one number, the later counts.
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
    """Remove waits that are over, in the order in which `deliver_event` locks them, too."""
    asked = sorted(set(closed))
    params = {
        "namespace_id": tx.namespace_id,
        "runs": [run for run, _ in asked],
        "numbers": [number for _, number in asked],
    }
    await tx.all("close_waits", params)
    tx.news |= News.VALUES


async def read_waits(tx: Transaction, run_id: str) -> list[WaitRecord]:
    """The waits of the newest run of the chain."""
    rows = await tx.all("read_waits", {"namespace_id": tx.namespace_id, "id": run_id})
    return [wait_record(row) for row in rows]


async def find_hook(tx: Transaction, token: str) -> WaitRecord | None:
    """The open hook with this token's digest."""
    row = await tx.one("find_hook", {"namespace_id": tx.namespace_id, "token": token})
    return None if row is None else wait_record(row)


async def resume_hook(
    tx: Transaction,
    token: str,
    payload: bytes,
    message_id: str | None,
    trace: str | None,
    now: Instant | None,
    *,
    is_guest: bool,
) -> Sent:
    """Deliver a payload to an open hook, or say why that can't be done: see above for who wins.

    In a caller's own transaction the row is not deleted: a turn that closes the hook would have to wait until the
    caller commits. Those who come second see what became of the hook by a later statement.
    """
    if is_guest and (found := await find_hook(tx, token)) is not None:
        await hold_chain(tx, found.run_id)
    given = {"namespace_id": tx.namespace_id, "token": token, "message_id": message_id, "now": await tx.now(now)}
    mark = await tx.one("mark_hook", given)
    row = await tx.one("see_hook" if is_guest else "take_hook", given) if mark is not None else None
    if row is not None:
        run, number, name = row
        sent = {"run": run, "wait": number, "name": name, "payload": payload, "trace": trace}
        await tx.all("send_hook", {**given, **sent, "is_taken": not is_guest})
        tx.news |= News.WORK
        return Sent.SENT
    if mark is not None:
        await tx.all("unmark_hook", {**given, "mark": mark[0]})
    settled = await tx.one("settle_hook", given)
    assert settled is not None
    is_known, is_marked, is_there, became = settled
    if is_known:
        return Sent.DUPLICATE
    if is_marked:
        return Sent.USED
    if is_there:
        return Sent.EXPIRED
    return Sent.MISSING if became is None else Sent(became)
