"""Messages: a sender only inserts, into the inbox of a chain's live run, and each message id once."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, OutSignal, Sent, Unread
from holdfast.store.subscribers import News

from .chains import find_chain, find_chains
from .transactions import Row, Transaction, as_json


def insert_messages(tx: Transaction, rows: Sequence[Row]) -> None:
    """Rows of (run, kind, name, payload, sent_at, wait, trace); those for runs that have ended are dropped."""
    tx.rows("send_signal", rows)
    tx.news |= News.WORK


def is_known(tx: Transaction, scope: str, message_id: str | None) -> bool:
    """Whether a message with this id was delivered before."""
    params = {"namespace_id": tx.namespace_id, "scope": scope, "id": message_id}
    return message_id is not None and tx.one("find_message_id", params) is not None


def remember(tx: Transaction, scope: str, message_id: str | None, at: Instant) -> None:
    """Remember that a message with this id is delivered now."""
    if message_id is not None:
        tx.run("insert_message_id", {"namespace_id": tx.namespace_id, "scope": scope, "id": message_id, "now": at})


def send_signal(
    tx: Transaction,
    run_id: str,
    name: str,
    payload: bytes,
    message_id: str | None,
    trace: str | None,
    now: Instant | None,
) -> Sent:
    """Send a signal to the live run of a chain. A known message id is looked for first: a caller that lost the answer
    is told that the signal was sent, even if the run has ended since."""
    chain = find_chain(tx, run_id)
    if chain is None:
        return Sent.MISSING
    scope = f"signal/{chain.id}"
    if is_known(tx, scope, message_id):
        return Sent.DUPLICATE
    if not chain.is_live:
        return Sent.ENDED
    at = tx.now(now)
    remember(tx, scope, message_id, at)
    insert_messages(tx, [(chain.run, "signal", name, payload, at, None, trace)])
    return Sent.SENT


def count_unread(tx: Transaction, run_id: str) -> list[Unread]:
    """How many messages wait in the run's inbox, by kind and name."""
    rows = tx.all("count_unread", {"namespace_id": tx.namespace_id, "id": run_id})
    return [Unread(*row) for row in rows]


def send_signals(tx: Transaction, signals: Sequence[tuple[int, OutSignal]], at: Instant) -> None:
    """Send the signals of turns, each given with its sender's number. Signals to runs that are gone are dropped."""
    chains = find_chains(tx, [signal.run_id for _, signal in signals])
    targets = {run_id: chain.run for run_id, chain in chains.items()}
    strays = {(run, one.child): one.run_id for run, one in signals if one.child and one.run_id not in targets}
    if strays:
        rows = tx.all("find_followed", {"askers": as_json(list({run for run, _ in strays}))})
        targets |= {strays[run, key]: joined for run, key, joined in rows if (run, key) in strays}
    rows = [
        (targets[signal.run_id], "signal", signal.name, signal.payload, at, None, signal.trace)
        for _, signal in signals
        if signal.run_id in targets
    ]
    if rows:
        insert_messages(tx, rows)
