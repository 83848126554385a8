"""Values and streams: live state of a chain, written by turns and by steps."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import Instant, StepItems, StreamName, StreamRecord, ValueName
from holdfast.store.subscribers import News

from .transactions import Transaction


async def set_value(tx: Transaction, run_id: str, name: str, value: bytes, epoch: int, now: Instant | None) -> None:
    """Set a value for a step. Nothing is set if the run was deleted, or claimed since."""
    params = {"namespace_id": tx.namespace_id, "id": run_id, "name": name, "value": value, "epoch": epoch, "now": now}
    await tx.all("set_value", params)
    tx.news |= News.VALUES


async def set_values(tx: Transaction, values: Sequence[tuple[int, str, bytes, Instant]]) -> None:
    """Set values for turns: (run, name, value, time). Of several for one run and name, the last counts."""
    last = {(run, name): (value, at) for run, name, value, at in values}
    params = {
        "namespace_id": tx.namespace_id,
        "runs": [run for run, _ in last],
        "names": [name for _, name in last],
        "values": [value for value, _ in last.values()],
        "ats": [at for _, at in last.values()],
    }
    await tx.all("set_values", params)
    tx.news |= News.VALUES


async def read_value(tx: Transaction, run_id: str, name: str) -> bytes | None:
    """The chain's value of this name."""
    row = await tx.one("read_value", {"namespace_id": tx.namespace_id, "id": run_id, "name": name})
    return None if row is None else bytes(row[0])


async def list_values(tx: Transaction, run_id: str, after: str, limit: int) -> list[ValueName]:
    """The chain's values after a name."""
    params = {"namespace_id": tx.namespace_id, "id": run_id, "after": after, "limit": limit}
    return [ValueName(*row) for row in await tx.all("list_values", params)]


async def list_streams(tx: Transaction, run_id: str, after: str, limit: int) -> list[StreamName]:
    """The chain's streams after a name."""
    params = {"namespace_id": tx.namespace_id, "id": run_id, "after": after, "limit": limit}
    return [StreamName(*row) for row in await tx.all("list_streams", params)]


async def append_items(tx: Transaction, sent: StepItems, now: Instant | None) -> None:
    """Add items for a step. By the second statement, which has the stream to itself, all earlier items and claims of
    the run can be seen."""
    params = {"namespace_id": tx.namespace_id, "id": sent.run_id, "stream": sent.stream, "epoch": sent.epoch}
    row = await tx.one("hold_stream", params)
    if row is None:
        return
    chain_id, last, run = row
    params |= {
        "chain_id": chain_id,
        "last": last,
        "run": run,
        "step": sent.step,
        "attempt": sent.attempt,
        "number": sent.number,
        "payloads": list(sent.payloads),
        "now": now,
    }
    await tx.all("append_items", params)
    tx.news |= News.VALUES


async def append_given(tx: Transaction, items: Sequence[tuple[int, str, bytes, Instant]]) -> None:
    """Add items for turns: (run, stream, item, time)."""
    params = {
        "namespace_id": tx.namespace_id,
        "runs": [run for run, _, _, _ in items],
        "streams": [stream for _, stream, _, _ in items],
        "payloads": [payload for _, _, payload, _ in items],
        "ats": [at for _, _, _, at in items],
    }
    await tx.all("append_given", params)
    tx.news |= News.VALUES


async def read_items(tx: Transaction, run_id: str, stream: str, after: int, limit: int) -> list[StreamRecord]:
    """Items after an offset, in order."""
    params = {"namespace_id": tx.namespace_id, "id": run_id, "stream": stream, "after": after, "limit": limit}
    return [StreamRecord(*row) for row in await tx.all("read_items", params)]
