"""Which run goes on after one that has continued as new, and in which its chain has come to now."""

from __future__ import annotations

from holdfast.model import RunRecord

from .contract import Store


async def last_of(store: Store, run_id: str) -> RunRecord | None:
    """The run, or the one in which it goes on, however often it has; None if that is gone."""
    record = await store.get_run(run_id)
    while record is not None and record.successor_id is not None:
        record = await next_of(store, record)
    return record


async def next_of(store: Store, record: RunRecord) -> RunRecord | None:
    """The run that goes on after one that has continued; None if nothing that came after it is left.

    One in the middle of a chain may have been deleted: then it is the last one of the chain.
    """
    assert record.successor_id is not None
    found = await store.get_run(record.successor_id)
    if found is None:
        found = await store.find_last(record.id)
    return None if found is None or found.id == record.id else found
