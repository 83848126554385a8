"""Runs as lines of JSON: written when they are exported or pruned, read when they are imported or replayed.

A line tells in plain words what the run was, for people and their tools. Under `data` it holds all that it takes to
bring the run back: its record and its journal, as they were stored. Payloads stay as the codec wrote them, so what was
encrypted stays encrypted. For the same reason the readable journal has no values, errors and notes if the codec
encrypts: a file goes where the keys must not.

Only an ended run can be imported. A live one has timers, waits, children and messages, and two databases that both own
it would execute its steps twice. An imported run is the first of a chain of its own. It has no parent, children, values
or streams. The idempotency keys of its steps are what they were.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from holdfast.codec import Codec, plain
from holdfast.errors import CodecError, DefinitionError, StoreError
from holdfast.model import (
    ASKS,
    LONGEST_ID,
    Instant,
    JournalRow,
    NewRun,
    RowChange,
    RunRecord,
    RunStatus,
    Turn,
    decode_entries,
    instant_of,
    is_name,
    is_text,
    moment_of,
    quoted,
)
from holdfast.store import Store

from . import journals
from .journals import Journal, JournalEntry
from .retries import seed_of

_FORMAT = "holdfast-run/1"
_NEVER = 250_000_000_000_000_000
"""An instant that never comes. An imported run is due then, so that no worker claims it before its last turn is in."""


class Imported(StrEnum):
    """What became of an imported line."""

    IMPORTED = "imported"
    KNOWN = "known"
    """A run with this id exists already, and was left as it is."""
    KEY_TAKEN = "key_taken"
    """Another run holds the key; nothing was written."""


class _Archived(msgspec.Struct, frozen=True):
    run: RunRecord
    rows: tuple[JournalRow, ...]
    holds_key: bool = True
    """Whether the run still holds its key. A later start, or a retry of this run, may have taken it."""


def line_of(record: RunRecord, rows: Sequence[JournalRow], codec: Codec, *, holds_key: bool) -> str:
    """A run with its journal as one line of JSON. Raises NotDecodable for a journal that can't be read."""
    data = msgspec.msgpack.encode(_Archived(record, tuple(rows), holds_key))
    told: dict[str, Any] = {
        "format": _FORMAT,
        "id": record.id,
        "workflow": record.workflow,
        "version": record.version,
        "status": record.status,
        "key": record.key,
        "tags": dict(record.tags),
        "created_at": record.created_at,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "archived_at": datetime.now(UTC),
        "encrypted": codec.encrypts,
        "journal": [_told(entry, codec) for entry in journals.read(record.id, rows, codec)],
        "data": base64.b64encode(data).decode("ascii"),
    }
    return json.dumps(plain(told), ensure_ascii=False)


def _told(entry: JournalEntry, codec: Codec) -> dict[str, Any]:
    """An entry in readable form; without what a payload says if the codec encrypts."""
    if codec.encrypts:
        entry = replace(entry, value=None, error=None, note=None)
    return entry.as_dict()


def append(file: Path, line: str) -> None:
    """Add a line to a file to which others may be adding, too. It is one write, so that lines don't get mixed up.

    If a crash or a full disk has left half a line at the end, the new line begins after it. A line that another process
    is just writing looks the same, and then an empty line follows it.
    """
    left = f"{line}\n".encode()
    if _is_cut_off(file):
        left = b"\n" + left
    with file.open("ab", buffering=0) as lines:
        while left:
            left = left[lines.write(left) :]


def _is_cut_off(file: Path) -> bool:
    if not file.is_file() or not file.stat().st_size:
        return False
    with file.open("rb") as lines:
        lines.seek(-1, os.SEEK_END)
        return lines.read(1) != b"\n"


def read_archive(line: str | bytes, *, codec: Codec | None = None) -> Journal:
    """The journal of a run from its line, as `client.journal` gives it. Raises DefinitionError for any other line."""
    archived = _opened(line)
    return journals.whole(archived.run, archived.rows, codec or Codec())


async def import_line(store: Store, line: str | bytes) -> Imported:
    """Bring an ended run back, with its id, its key and its journal. To import it again changes nothing.

    By two commits: first the run with all turns but the last, never due; then the last turn, which ends it. A crash
    between the two leaves a run that nobody claims, and importing the line again completes it.
    """
    archived = _opened(line)
    run, rows = archived.run, archived.rows
    if not run.status.is_final or run.ended_at is None or not rows:
        raise DefinitionError(f"run {run.id} is {run.status}: only ended runs can be imported; let it end first")
    if run.status is RunStatus.CONTINUED:
        raise DefinitionError(
            f"run {run.id} has continued as another run, and can't be imported apart from it; import that one"
        )
    new = NewRun(
        id=run.id,
        workflow=run.workflow,
        version=run.version,
        queue=run.queue,
        input=run.input,
        seed=seed_of(entry for row in rows for entry in decode_entries(row.data)),
        key=run.key if archived.holds_key else None,
        due_at=_NEVER,
        priority=run.priority,
        tags=run.tags,
        # Kept for ever: its own retention may be over already.
        retention=None,
        # If it is retried here, its steps have the same idempotency keys as before.
        origin_id=run.origin_id,
        forked_from=run.forked_from,
        rows=tuple(row.data for row in rows[:-1]),
    )
    [started] = await store.start_runs([new], now=instant_of(run.created_at))
    if started.id != run.id and (other := _of_one_life(new, run, await store.get_run(started.id))) is not None:
        [started] = await store.start_runs([other], now=instant_of(run.created_at))
    if started.id != run.id:
        return Imported.KEY_TAKEN
    if not started.created and not _is_half_imported(await store.get_run(run.id), run):
        return Imported.KNOWN
    # crash here: the run exists and is never due; a second import finds it like this.
    change = RowChange(status=run.status, release=True, output=run.output, error=run.error)
    last = Turn(run_id=run.id, seq=len(rows) - 1, epoch=0, at=rows[-1].at, data=rows[-1].data, change=change)
    [answer] = await store.commit_turns([last], now=instant_of(run.ended_at))
    if isinstance(answer, StoreError):
        raise answer
    # Not accepted: somebody has ended the run by force, or deleted it, since the first commit.
    return Imported.IMPORTED if answer else Imported.KNOWN


def _of_one_life(new: NewRun, run: RunRecord, holder: RunRecord | None) -> NewRun | None:
    """How to create the run if the holder of its key is of the same life; else None. A retry takes the key over from
    the run that it retries, so the youngest of a life holds it, whichever is imported first."""
    if holder is None or holder.origin_id != run.origin_id:
        return None
    if holder.created_at > run.created_at:
        return msgspec.structs.replace(new, key=None)
    return msgspec.structs.replace(new, takes_key_of=holder.id)


def _is_half_imported(there: RunRecord | None, run: RunRecord) -> bool:
    """Whether the existing run is an import of this one that stopped after its first commit."""
    if there is None or there.status is not RunStatus.PENDING or there.created_at != run.created_at:
        return False
    return there.due_at is not None and instant_of(there.due_at) == _NEVER


def _opened(line: str | bytes) -> _Archived:
    try:
        told = json.loads(line)
        if told["format"] != _FORMAT:
            raise DefinitionError(
                f"this line has the format {told['format']!r}, and this Holdfast reads {_FORMAT!r}; use the version "
                "that wrote it, or a newer one"
            )
        archived = msgspec.msgpack.decode(base64.b64decode(told["data"], validate=True), type=_Archived)
        _check(archived)
    except (ValueError, KeyError, TypeError, RecursionError, msgspec.MsgspecError, CodecError) as error:
        raise DefinitionError(
            f"this line is not an exported run: {type(error).__name__}: {error}; expected a line that "
            "`holdfast export` or client.prune(archive=) has written"
        ) from error
    return archived


def _check(archived: _Archived) -> None:
    """Raise ValueError for what no run that Holdfast has written can hold: a store would refuse it, or take it and
    never hand it out."""
    run = archived.run
    texts = {"id": run.id, "origin": run.origin_id, "workflow": run.workflow, "version": run.version}
    for what, text in {**texts, "queue": run.queue, "key": run.key}.items():
        if text is not None and not is_name(text, LONGEST_ID):
            raise ValueError(f"its {what} is {quoted(text)}")
    if not all(is_text(name) and is_text(text) for name, text in run.tags.items()):
        raise ValueError(f"its tags are {quoted(run.tags)}")
    if not 0 <= run.priority <= 9:
        raise ValueError(f"its priority is {run.priority}, and not 0 to 9")
    for row in archived.rows:
        for at in (row.at, *(entry.at for entry in decode_entries(row.data) if not isinstance(entry, ASKS))):
            _check_instant(at)


def _check_instant(at: Instant) -> None:
    try:
        moment_of(at)
    except OverflowError:
        raise ValueError(f"the time {at} is not between the years 1 and 9999") from None
