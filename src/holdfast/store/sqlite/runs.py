"""Reading runs: one by id or key, those that have ended, a journal, a page of a listing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from holdfast.model import JournalRow, Page, RunFilter, RunRecord
from holdfast.store.listing import (
    CHUNK,
    MOST_LOOKED_AT,
    Place,
    decode_cursor,
    encode_cursor,
    fragments,
    has_tags,
)

from .chains import find_chain
from .rows import run_record
from .transactions import Row, Transaction, as_json


def get_run(tx: Transaction, run_id: str) -> RunRecord | None:
    """The run with this id."""
    return _only(tx.packed(["select_runs", "get_run"], {"namespace_id": tx.namespace_id, "id": run_id}))


def find_run(tx: Transaction, workflow: str, key: str) -> RunRecord | None:
    """The run that holds this key."""
    params = {"namespace_id": tx.namespace_id, "workflow": workflow, "key": key}
    return _only(tx.packed(["select_runs", "find_run"], params))


def find_last(tx: Transaction, run_id: str) -> RunRecord | None:
    """The newest run of the run's chain."""
    chain = find_chain(tx, run_id)
    return None if chain is None else get_run(tx, chain.run_id)


def read_ended(tx: Transaction, run_ids: Sequence[str]) -> list[RunRecord]:
    """Those of the runs that have ended."""
    params = {"namespace_id": tx.namespace_id, "ids": as_json(list(run_ids))}
    try:
        rows = tx.packed(["select_runs", "read_ended"], params)
    except sqlite3.DataError:
        # Together they are larger than a string can be.
        if len(run_ids) < 2:
            raise
        middle = len(run_ids) // 2
        return read_ended(tx, run_ids[:middle]) + read_ended(tx, run_ids[middle:])
    return [run_record(row) for row in rows]


def read_gone(tx: Transaction, run_ids: Sequence[str]) -> list[str]:
    """Those of the ids that no run has."""
    params = {"namespace_id": tx.namespace_id, "ids": as_json(list(run_ids))}
    return [run_id for (run_id,) in tx.all("read_gone", params)]


def read_journal(tx: Transaction, run_id: str) -> list[JournalRow]:
    """All turns of a run, in order."""
    return [JournalRow(*row) for row in tx.all("read_journal", {"namespace_id": tx.namespace_id, "id": run_id})]


def list_runs(
    tx: Transaction,
    where: RunFilter,
    cursor: str | None,
    limit: int,
    accept: Callable[[RunRecord], bool] | None = None,
) -> Page[RunRecord]:
    """One page, newest first.

    Tags and `accept` are tested here, on about MOST_LOOKED_AT runs: a page may be short or even empty, and still have a
    next one.
    """
    is_tested = bool(where.tags or accept)
    size = CHUNK if is_tested else limit + 1
    after = None if cursor is None else decode_cursor(cursor)
    found: list[RunRecord] = []
    looked_at = 0
    while True:
        try:
            rows = _list_chunk(tx, where, after, size)
        except sqlite3.DataError:
            # Too large to be packed into one (see claims.sql): fewer at a time.
            if size < 2:
                raise
            size //= 2
            continue
        looked_at += len(rows)
        for row in rows:
            if len(found) == limit:
                # `after` is the last run that was looked at, whether it passed the tests or not.
                return _page(found, after)
            after = row[_CREATED_AT], row[_NUMBER]
            record = run_record(row)
            if has_tags(record, where.tags) and (accept is None or accept(record)):
                found.append(record)
        if len(rows) < size:
            return _page(found, None)
        if looked_at >= MOST_LOOKED_AT:
            return _page(found, after)


def _list_chunk(tx: Transaction, where: RunFilter, after: Place | None, size: int) -> list[Row]:
    names, params = fragments(where, after)
    params |= {"statuses": as_json(params["statuses"]), "namespace_id": tx.namespace_id, "limit": size}
    rows = tx.packed(names, params)
    return sorted(rows, key=lambda row: (row[_CREATED_AT], row[_NUMBER]), reverse=True)


def _only(rows: Sequence[Row]) -> RunRecord | None:
    return run_record(rows[0]) if rows else None


_NUMBER, _CREATED_AT = 0, 10


def _page(found: Sequence[RunRecord], after: Place | None) -> Page[RunRecord]:
    return Page(tuple(found), None if after is None else encode_cursor(after))
