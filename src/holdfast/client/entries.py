"""Reading the rows of a journal. A damaged journal must not break the tools that help with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.errors import NotDecodable
from holdfast.model import Entry, JournalRow, decode_entries


def decoded(run_id: str, rows: Iterable[JournalRow]) -> Iterator[tuple[JournalRow, list[Entry]]]:
    """Each row with its entries. Raises NotDecodable, which names the run and the row."""
    for row in rows:
        try:
            entries = decode_entries(row.data)
        except msgspec.MsgspecError as error:
            raise NotDecodable(
                f"the journal of run {run_id} can't be read at row {row.seq}: {error}; use the version that wrote it, "
                "or restore it from a backup. Without that the run can be forked from the start, cancelled by force "
                "and deleted"
            ) from error
        yield row, entries


def entries_of(run_id: str, rows: Iterable[JournalRow]) -> list[Entry]:
    """All entries, in order. Raises as `decoded`."""
    return [entry for _, entries in decoded(run_id, rows) for entry in entries]


def readable(run_id: str, rows: Iterable[JournalRow]) -> tuple[list[Entry], str | None]:
    """All entries, and None; or, for a journal that can't be read, no entries and why."""
    try:
        return entries_of(run_id, rows), None
    except NotDecodable as error:
        return [], str(error)
