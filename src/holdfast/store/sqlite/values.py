"""Values and streams: live state of a chain, written by turns and by steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from holdfast.model import Instant, StepItems, StepValue, StreamName, StreamRecord, ValueName
from holdfast.store.subscribers import News

from .chains import chains_of, find_chain
from .transactions import Row, Transaction


def send(tx: Transaction, sent: StepItems | StepValue, now: Instant | None) -> None:
    """Write what a transactional step has sent."""
    if isinstance(sent, StepItems):
        append_items(tx, sent, now)
    else:
        set_value(tx, sent.run_id, sent.name, sent.value, sent.epoch, now)


def set_value(tx: Transaction, run_id: str, name: str, value: bytes, epoch: int, now: Instant | None) -> None:
    """Set a value for a step. Nothing is set if the run was deleted, or claimed since."""
    sender = _find_sender(tx, run_id, epoch)
    if sender is not None:
        tx.rows("set_value", [(tx.namespace_id, sender.chain_id, name, value, tx.now(now))])
        tx.news |= News.VALUES


def set_values(tx: Transaction, values: Sequence[tuple[int, str, bytes]], at: Instant) -> None:
    """Set values for turns: (run, name, value). Of several for one name, the last counts."""
    chains = chains_of(tx, list({run for run, _, _ in values}))
    last = {(chains[run], name): value for run, name, value in values}
    tx.rows("set_value", [(tx.namespace_id, chain_id, name, value, at) for (chain_id, name), value in last.items()])
    tx.news |= News.VALUES


def read_value(tx: Transaction, run_id: str, name: str) -> bytes | None:
    """The chain's value of this name."""
    chain = find_chain(tx, run_id)
    if chain is None:
        return None
    row = tx.one("read_value", {"namespace_id": tx.namespace_id, "chain_id": chain.id, "name": name})
    return None if row is None else row[0]


def list_values(tx: Transaction, run_id: str, after: str, limit: int) -> list[ValueName]:
    """The chain's values after a name."""
    return [ValueName(*row) for row in _names(tx, "list_values", run_id, after, limit)]


def list_streams(tx: Transaction, run_id: str, after: str, limit: int) -> list[StreamName]:
    """The chain's streams after a name."""
    return [StreamName(*row) for row in _names(tx, "list_streams", run_id, after, limit)]


def _names(tx: Transaction, block: str, run_id: str, after: str, limit: int) -> list[Row]:
    chain = find_chain(tx, run_id)
    if chain is None:
        return []
    params = {"namespace_id": tx.namespace_id, "chain_id": chain.id, "after": after, "limit": limit}
    return tx.all(block, params)


def append_items(tx: Transaction, sent: StepItems, now: Instant | None) -> None:
    """Add items for a step. A step with the same key in a run that this one retries is the same step; in a run that
    this one continues it is another."""
    sender = _find_sender(tx, sent.run_id, sent.epoch)
    if sender is None:
        return
    payloads, number = sent.payloads, sent.number
    by = {"run": sender.run, "stream": sent.stream, "step": sent.step}
    last = tx.one("last_item", by)
    if last is None:
        asked = {**by, "namespace_id": tx.namespace_id, "chain_id": sender.chain_id}
        resets = tx.one("was_retried", asked) is not None
    else:
        execution = (sent.epoch, sent.attempt)
        if tuple(last[:2]) > execution:
            return
        resets = tuple(last[:2]) < execution
        known = 0 if resets else max(0, last[2] + 1 - number)
        payloads, number = payloads[known:], number + known
    if not payloads:
        return
    at = tx.now(now)
    first = 1 + _last_place(tx, sender.chain_id, sent.stream)
    rows = [
        (
            *(tx.namespace_id, sender.chain_id, sent.stream, first + place, sender.run, sent.step, sent.attempt),
            *(sent.epoch, number + place, at, resets and place == 0, payload),
        )
        for place, payload in enumerate(payloads)
    ]
    tx.rows("append_items", rows)
    tx.news |= News.VALUES


def append_outs(tx: Transaction, items: Sequence[tuple[int, str, bytes]], at: Instant) -> None:
    """Add items for turns: (run, stream, payload)."""
    chains = chains_of(tx, list({run for run, _, _ in items}))
    streams: defaultdict[tuple[str, str], list[tuple[int, bytes]]] = defaultdict(list)
    for run, stream, payload in items:
        streams[chains[run], stream].append((run, payload))
    rows = []
    for (chain_id, stream), sent in streams.items():
        first = 1 + _last_place(tx, chain_id, stream)
        rows += [
            (tx.namespace_id, chain_id, stream, place, run, None, 0, 0, 0, at, False, payload)
            for place, (run, payload) in enumerate(sent, first)
        ]
    tx.rows("append_items", rows)
    tx.news |= News.VALUES


class _Sender(NamedTuple):
    run: int
    chain_id: str


def _find_sender(tx: Transaction, run_id: str, epoch: int) -> _Sender | None:
    """The run whose step sends something; None if it is gone, or was claimed since."""
    row = tx.one("find_sender", {"namespace_id": tx.namespace_id, "id": run_id, "epoch": epoch})
    return None if row is None else _Sender(*row)


def _last_place(tx: Transaction, chain_id: str, stream: str) -> int:
    row = tx.one("last_place", {"namespace_id": tx.namespace_id, "chain_id": chain_id, "stream": stream})
    return 0 if row is None else int(row[0])


def read_items(tx: Transaction, run_id: str, stream: str, after: int, limit: int) -> list[StreamRecord]:
    """Items after a place, in order."""
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
        StreamRecord(place, payload, step, attempt, at, bool(reset), origin_id)
        for place, payload, step, attempt, at, reset, origin_id in tx.all("read_items", params)
    ]
