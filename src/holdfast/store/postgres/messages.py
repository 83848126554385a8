"""Messages: signals and cancels to the live run of a chain. A sender only inserts.

One statement decides what becomes of a message. If its run was continued meanwhile, the statement is executed again.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, OutSignal, RunStatus, Sent, Unread
from holdfast.store.subscribers import News

from .floors import BOTTOM
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
    is_guest: bool,
) -> Sent:
    """Send a signal to the newest run of the chain, if that is live. In a caller's own transaction no run is locked."""
    if is_guest:
        await hold_chain(tx, run_id)
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
            tx.news |= News.WORK
            return Sent.SENT
        if final is None or is_known:
            return Sent.DUPLICATE
        if final != RunStatus.CONTINUED.value or number == seen:
            return Sent.ENDED
        # The run was continued while the statement waited for it. The next look finds its successor, or the same run
        # again if no successor is left.
        seen = number


async def hold_chain(tx: Transaction, run_id: str) -> None:
    """Keep the runs of a chain from being removed until the caller's transaction ends. It is a statement of its own, so
    that the statements after it do not see what was removed before.

    A transaction that sees nothing younger than itself would see it all the same: there, a removed run is an error.
    """
    params = {"namespace_id": tx.namespace_id, "id": run_id}
    row = await tx.one("hold_chain", params)
    if row is not None and row[1]:
        for name in ("begin_look", "refuse_removed", "undo_look", "end_look"):
            await tx.all(name, params)


async def count_unread(tx: Transaction, run_id: str) -> list[Unread]:
    """How many messages wait in the run's inbox, by kind and name."""
    rows = await tx.all("count_unread", {"namespace_id": tx.namespace_id, "id": run_id})
    return [Unread(*row) for row in rows]


async def send_signals(tx: Transaction, signals: Sequence[OutSignal], now: Instant | None) -> None:
    """Send the signals of turns. Those to runs that have ended or are gone are dropped."""
    left = list(range(len(signals)))
    seen: dict[int, int] = {}
    while left:
        params = {
            "namespace_id": tx.namespace_id,
            "places": left,
            "ids": [signals[place].run_id for place in left],
            "names": [signals[place].name for place in left],
            "payloads": [signals[place].payload for place in left],
            "traces": [signals[place].trace for place in left],
            "now": now,
        }
        met: dict[int, int] = {row[0]: row[1] for row in await tx.all("send_signals", params)}
        # A run that is met a second time has no successor any more.
        left = [place for place, number in met.items() if seen.get(place) != number]
        seen |= met


async def send_cancels(tx: Transaction, cancels: Sequence[tuple[int, str]], now: Instant | None) -> None:
    """Send the cancels of turns, each from a run, given by number, to its child."""
    parents, ids = zip(*cancels, strict=True)
    params = {"namespace_id": tx.namespace_id, "parents": list(parents), "ids": list(ids), "now": now}
    await tx.all("send_cancels", params)


async def move_strays(tx: Transaction, floor: Instant = BOTTOM) -> None:
    """Move messages that arrived for a run after its end to its successor, or drop them."""
    if await tx.all("move_strays", {"namespace_id": tx.namespace_id, "floor": floor}):
        tx.news |= News.WORK
