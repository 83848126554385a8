"""Runs as they are read: one, by key, the ended ones, a journal, a page of many."""

from __future__ import annotations

import base64
import binascii
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.model import JournalRow, Page, RunFilter, RunRecord, RunStatus, instant_of

from .rows import run_record
from .transactions import Row, Transaction, as_json

CHUNK = 500
MOST_LOOKED_AT = 10_000
"""Runs that one page looks at when more than SQL is asked; then it ends early, with a cursor to go on from."""


def get_run(tx: Transaction, run_id: str) -> RunRecord | None:
    """By id."""
    return _only(tx.packed(["select_runs", "get_run"], {"namespace_id": tx.namespace_id, "id": run_id}))


def find_run(tx: Transaction, workflow: str, key: str) -> RunRecord | None:
    """By key."""
    params = {"namespace_id": tx.namespace_id, "workflow": workflow, "key": key}
    return _only(tx.packed(["select_runs", "find_run"], params))


def read_ended(tx: Transaction, run_ids: Sequence[str]) -> list[RunRecord]:
    """Those that have ended."""
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


def read_journal(tx: Transaction, run_id: str) -> list[JournalRow]:
    """All turns."""
    return [JournalRow(*row) for row in tx.all("read_journal", {"namespace_id": tx.namespace_id, "id": run_id})]


def list_runs(
    tx: Transaction,
    where: RunFilter,
    cursor: str | None,
    limit: int,
    accept: Callable[[RunRecord], bool] | None = None,
) -> Page[RunRecord]:
    """One page, newest first.

    Tags and `accept` are tested here, on at most MOST_LOOKED_AT runs: a page may be short, even empty, and have a
    next one. So it may if its runs are too large to be fetched together.
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
            if size < 2:
                raise
            size //= 2
            continue
        looked_at += len(rows)
        for row in rows:
            if len(found) == limit:
                # `after` is the last one that was looked at, found or not.
                return _page(found, after)
            after = row[_CREATED_AT], row[_NUMBER]
            record = run_record(row)
            if has_tags(record, where.tags) and (accept is None or accept(record)):
                found.append(record)
        if len(rows) < size:
            return _page(found, None)
        if looked_at >= MOST_LOOKED_AT:
            return _page(found, after)


def _list_chunk(tx: Transaction, where: RunFilter, after: tuple[int, int] | None, size: int) -> list[Row]:
    names, params = listing(where, after)
    rows = tx.packed(names, {**params, "namespace_id": tx.namespace_id, "limit": size})
    return sorted(rows, key=lambda row: (row[_CREATED_AT], row[_NUMBER]), reverse=True)


def _only(rows: Sequence[Row]) -> RunRecord | None:
    return run_record(rows[0]) if rows else None


_NUMBER, _CREATED_AT = 0, 10


def listing(where: RunFilter, after: tuple[int, int] | None) -> tuple[list[str], dict[str, Any]]:
    """The fragments that are the statement for a filter, and its parameters."""
    params: dict[str, Any] = {
        "statuses": as_json(list(RunStatus) if where.status is None else statuses(where.status)),
        "key": where.key,
        "parent": where.parent,
        "workflow": where.workflow,
        "since": None if where.since is None else instant_of(where.since, what="since"),
        "until": None if where.until is None else instant_of(where.until, what="until"),
    }
    params["cursor_at"], params["cursor_number"] = after or (None, None)
    tests = [f"and_{name}" for name in ("since", "until") if params[name] is not None]
    if after is not None:
        tests.append("and_before")
    of_workflow = [] if where.workflow is None else ["and_workflow"]
    if where.key is not None:
        of_parent = [] if where.parent is None else ["and_parent"]
        return ["select_runs", "list_by_key", *of_parent, *tests, *of_workflow, "end_few"], params
    if where.parent is not None:
        return ["select_runs", "list_by_parent", *tests, *of_workflow, "end_few"], params
    return ["select_runs", "list_runs", *tests, "end_walk", *of_workflow, "end_listed"], params


def statuses(given: RunStatus | str | tuple[RunStatus | str, ...]) -> list[str]:
    """The states of a filter. One that is none raises ValueError."""
    several = given if isinstance(given, tuple) else (given,)
    return [RunStatus(one).value for one in several]


def has_tags(record: RunRecord, wanted: Mapping[str, str]) -> bool:
    """Whether it has all of them."""
    return all(record.tags.get(name) == text for name, text in wanted.items())


def encode_cursor(after: tuple[int, int]) -> str:
    """A place in the listing, as text that means nothing to others."""
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(after)).decode()


def decode_cursor(cursor: str) -> tuple[int, int]:
    """The place; ValueError if the text is no cursor."""
    try:
        return msgspec.msgpack.decode(base64.b64decode(cursor, altchars=b"-_", validate=True), type=tuple[int, int])
    except (binascii.Error, msgspec.DecodeError, ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"cursor: {cursor!r} is none; give the `next` of an earlier page, or nothing") from error


def _page(found: Sequence[RunRecord], after: tuple[int, int] | None) -> Page[RunRecord]:
    return Page(tuple(found), None if after is None else encode_cursor(after))
