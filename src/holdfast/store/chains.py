"""Following a chain: from a run that continued as new to the run after it, and to the last."""

from __future__ import annotations

from holdfast.model import RunRecord

from .contract import Store


async def last_of(store: Store, run_id: str) -> RunRecord | None:
    """The run itself, or the last run that its chain has continued in; None if that one is gone."""
    record = await store.get_run(run_id)
    while record is not None and record.successor_id is not None:
        record = await next_of(store, record)
    return record


async def next_of(store: Store, record: RunRecord) -> RunRecord | None:
    """The run after one that has continued; None if no later run of its chain is left.

    If its direct successor was deleted, this is the last run of the chain.
    """
    assert record.successor_id is not None
    found = await store.get_run(record.successor_id)
    if found is None:
        found = await store.find_last(record.id)
    return None if found is None or found.id == record.id else found
