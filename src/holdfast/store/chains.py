"""Following runs: from a run that continued as new to the run after it, and to the last; from a run to its children."""

from __future__ import annotations

from collections.abc import AsyncIterator

from holdfast.model import LIVE, RunFilter, RunRecord

from .contract import Store

_MANY = 100


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


async def kept_of_chain(store: Store, record: RunRecord) -> RunRecord | None:
    """The newest other run of the chain that this run began, if any is kept: as long, this run is not removed."""
    found = None if record.id != record.chain_id else await store.find_last(record.id)
    return None if found is None or found.id == record.id else found


async def family_of(store: Store, run_id: str) -> AsyncIterator[RunRecord]:
    """A run and its live descendants, but not all of them if there are many."""
    record = await store.get_run(run_id)
    todo = [] if record is None or record.status.is_final else [record]
    for _ in range(_MANY):
        if not todo:
            return
        one = todo.pop(0)
        yield one
        todo += (await store.list_runs(RunFilter(parent=one.id, status=LIVE), limit=_MANY)).items
