"""Messages: signals to the live run of a chain, and payloads for hooks. A sender only inserts.

What decides is one statement each, or the delete of one row; what was continued or taken meanwhile is looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, OutSignal, RunStatus, Sent, WaitRecord

from .rows import wait_record
from .transactions import Transaction


async def send_signal(
    tx: Transaction,
    run_id: str,
    name: str,
    payload: bytes,
    message_id: str | None,
    trace: str | None,
    now: Instant | None,
    *,
    is_guest: bool = False,
) -> Sent:
    """To the newest run of the chain, if that is live. In a caller's own transaction nothing is locked."""
    params = {
        "namespace_id": tx.namespace_id,
        "id": run_id,
        "name": name,
        "payload": payload,
        "message_id": message_id,
        "trace": trace,
        "now": now,
        "is_held": not is_guest,
    }
    seen: int | None = None
    while True:
        row = await tx.one("send_signal", params)
        if row is None:
            return Sent.MISSING
        final, is_sent, is_known, number = row
        if is_sent:
            tx.has_news = True
            return Sent.SENT
        if final is None or is_known:
            return Sent.DUPLICATE
        if final != RunStatus.CONTINUED.value or number == seen:
            return Sent.ENDED
        # It was continued while the statement waited for it, and its successor is there now; or it has none any more.
        seen = number


async def send_signals(tx: Transaction, signals: Sequence[tuple[OutSignal, Instant]]) -> None:
    """Those of turns. What the ended and the missing are sent goes nowhere."""
    left = list(range(len(signals)))
    seen: dict[int, int] = {}
    while left:
        params = {
            "namespace_id": tx.namespace_id,
            "places": left,
            "ids": [signals[place][0].run_id for place in left],
            "names": [signals[place][0].name for place in left],
            "payloads": [signals[place][0].payload for place in left],
            "ats": [signals[place][1] for place in left],
            "traces": [signals[place][0].trace for place in left],
        }
        met: dict[int, int] = {row[0]: row[1] for row in await tx.all("send_signals", params)}
        # One that is met again has no successor, or none any more.
        left = [place for place, number in met.items() if seen.get(place) != number]
        seen |= met


async def send_cancels(tx: Transaction, cancels: Sequence[tuple[int, str, Instant]]) -> None:
    """Those of turns, each from a run to its child."""
    parents, ids, ats = zip(*cancels, strict=True)
    params = {"namespace_id": tx.namespace_id, "parents": list(parents), "ids": list(ids), "ats": list(ats)}
    await tx.all("send_cancels", params)


async def find_hook(tx: Transaction, token: str) -> WaitRecord | None:
    """An open one."""
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
    is_guest: bool = False,
) -> Sent:
    """Of those who resume it whoever marks it is first; of that one and its run, whoever deletes the row.

    In a caller's own transaction the row is left alone: turns that close it would wait until the caller commits. Others
    see by a later statement what became of it.
    """
    given = {"namespace_id": tx.namespace_id, "token": token, "message_id": message_id, "now": await tx.now(now)}
    mark = await tx.one("mark_hook", given)
    row = await tx.one("see_hook" if is_guest else "take_hook", given) if mark is not None else None
    if row is not None:
        run, number, name = row
        # A hook that an earlier run of the chain has opened has no number that this one knows.
        sent = {"run": run, "wait": number if number >= 0 else None, "name": name, "payload": payload, "trace": trace}
        await tx.all("send_hook", {**given, **sent, "is_taken": not is_guest})
        tx.has_news = True
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


async def move_strays(tx: Transaction) -> None:
    """Messages that came for a run just after its end: to its successor, or away."""
    if await tx.all("move_strays", {"namespace_id": tx.namespace_id}):
        tx.has_news = True
