"""Values and streams: live state that belongs to a chain, set and sent by turns and by steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from holdfast.model import Instant, StreamRecord

from .chains import chains_of, find_chain
from .transactions import Transaction


def set_value(tx: Transaction, run_id: str, name: str, value: bytes, now: Instant | None) -> None:
    """As a step sets it. Of a run that was deleted nothing is kept."""
    chain = find_chain(tx, run_id)
    if chain is not None:
        tx.rows("set_value", [(tx.namespace_id, chain.id, name, value, tx.now(now))])
        tx.has_news = True


def set_values(tx: Transaction, values: Sequence[tuple[int, str, bytes]], at: Instant) -> None:
    """As turns set them: (run, name, value). The last one of a name counts."""
    chains = chains_of(tx, list({run for run, _, _ in values}))
    last = {(chains[run], name): value for run, name, value in values}
    tx.rows("set_value", [(tx.namespace_id, chain_id, name, value, at) for (chain_id, name), value in last.items()])
    tx.has_news = True


def read_value(tx: Transaction, run_id: str, name: str) -> bytes | None:
    """The last one."""
    chain = find_chain(tx, run_id)
    if chain is None:
        return None
    row = tx.one("read_value", {"namespace_id": tx.namespace_id, "chain_id": chain.id, "name": name})
    return None if row is None else row[0]


def append_items(
    tx: Transaction,
    run_id: str,
    stream: str,
    items: Sequence[bytes],
    step: str | None,
    attempt: int,
    begins: bool,
    now: Instant | None,
) -> None:
    """As a step sends them. Steps are told apart by run: a successor's step of the same key is another one."""
    chain = find_chain(tx, run_id)
    if chain is None or not items:
        return
    at = tx.now(now)
    first = 1 + _last_place(tx, chain.id, stream)
    sent = tx.one("last_attempt", {"run": chain.run, "stream": stream, "step": step}) if step is not None else None
    resets = sent is not None and sent[0] is not None and (begins or sent[0] < attempt)
    rows = [
        (tx.namespace_id, chain.id, stream, place, chain.run, step, attempt, at, resets and place == first, payload)
        for place, payload in enumerate(items, first)
    ]
    tx.rows("append_items", rows)
    tx.has_news = True


def append_outs(tx: Transaction, items: Sequence[tuple[int, str, bytes]], at: Instant) -> None:
    """As turns send them: (run, stream, payload)."""
    chains = chains_of(tx, list({run for run, _, _ in items}))
    streams: defaultdict[tuple[str, str], list[tuple[int, bytes]]] = defaultdict(list)
    for run, stream, payload in items:
        streams[chains[run], stream].append((run, payload))
    rows = []
    for (chain_id, stream), sent in streams.items():
        first = 1 + _last_place(tx, chain_id, stream)
        rows += [
            (tx.namespace_id, chain_id, stream, place, run, None, 0, at, False, payload)
            for place, (run, payload) in enumerate(sent, first)
        ]
    tx.rows("append_items", rows)
    tx.has_news = True


def _last_place(tx: Transaction, chain_id: str, stream: str) -> int:
    row = tx.one("last_place", {"namespace_id": tx.namespace_id, "chain_id": chain_id, "stream": stream})
    return 0 if row is None else int(row[0])


def read_items(tx: Transaction, run_id: str, stream: str, after: int, limit: int) -> list[StreamRecord]:
    """Behind a place."""
    chain = find_chain(tx, run_id)
    if chain is None:
        return []
    params = {
        "namespace_id": tx.namespace_id,
        "chain_id": chain.id,
        "stream": stream,
        "after": after,
        "limit": limit,
    }
    return [
        StreamRecord(place, payload, step, attempt, at, bool(reset))
        for place, payload, step, attempt, at, reset in tx.all("read_items", params)
    ]
