"""Turns and row-only writes. Whether the row of a turn is inserted decides about everything else in that turn.

All rows of a batch are one statement, which inserts all or none. Only if it fails are the turns tried one by one, to
find out which of them are refused and which were accepted before.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from holdfast.model import Instant, RowChange, RowWrite, Turn
from holdfast.store.subscribers import News

from .ends import after_ends
from .outs import give_out
from .statements import LARGEST
from .transactions import Row, Transaction, as_json


def commit_plain(tx: Transaction, turns: Sequence[Turn]) -> list[bool] | None:
    """The hot path, outside any transaction: turns that only insert rows are one statement. None: it can't be done like
    this."""
    if len(turns) > LARGEST or any(turn.change is not None or turn.taken or turn.out is not None for turn in turns):
        return None
    rows = _rows(tx, turns)
    if len(rows) < len(turns):
        return None
    try:
        tx.rows("commit_turns", rows)
    except sqlite3.IntegrityError:
        return None
    return [True] * len(turns)


def commit_turns(tx: Transaction, turns: Sequence[Turn], now: Instant | None) -> list[bool]:
    """Insert the rows, then do what the accepted turns do beside."""
    answers: list[bool] = []
    inserted: list[Turn] = []
    refused: set[str] = set()
    for start in range(0, len(turns), LARGEST):
        part = turns[start : start + LARGEST]
        if refused or not _insert_all(tx, part):
            answers.extend(_insert_one(tx, turn, inserted, refused) for turn in part)
        else:
            answers.extend([True] * len(part))
            inserted.extend(part)
    _apply(tx, inserted, now)
    return answers


def _insert_all(tx: Transaction, turns: Sequence[Turn]) -> bool:
    rows = _rows(tx, turns)
    if len(rows) < len(turns):
        return False
    try:
        tx.rows("commit_turns", rows)
    except sqlite3.IntegrityError:
        return False
    return True


def _insert_one(tx: Transaction, turn: Turn, inserted: list[Turn], refused: set[str]) -> bool:
    """Accept or refuse one turn. Later turns of the same run are refused with it."""
    rows = _rows(tx, [turn])
    if not rows or turn.run_id in refused:
        return False
    found = tx.one("find_turn", {"run": rows[0][0], "seq": turn.seq})
    if found is not None and found[0] is None:
        tx.rows("commit_turns", rows)
        inserted.append(turn)
        return True
    if found is not None and found[0] == turn.epoch:
        # It was accepted before, and the answer was lost: what it changes was changed then.
        return True
    refused.add(turn.run_id)
    tx.numbers.pop(turn.run_id, None)
    return False


def _rows(tx: Transaction, turns: Sequence[Turn]) -> list[Row]:
    """The rows to insert; those of runs that don't exist are left out."""
    numbers = tx.numbers
    missing = {turn.run_id: turn.created_at for turn in turns if turn.run_id not in numbers}
    if missing:
        params = {"namespace_id": tx.namespace_id, "ids": as_json(list(missing))}
        rows = tx.all("find_numbers", params)
        found = {run_id: number for run_id, number, at in rows if missing[run_id] in (None, at)}
        # The other claims were of runs that were deleted.
        tx.again.update(run_id for run_id, _, _ in rows if run_id not in found)
        if tx.again.isdisjoint(found):
            numbers.update(found)
        else:
            numbers = {**numbers, **found}
    # A bytearray is bound as it is. For bytes the driver looks for an adapter first, which costs three times as much.
    return [
        (numbers[turn.run_id], turn.seq, turn.epoch, turn.at, bytearray(turn.data))
        for turn in turns
        if turn.run_id in numbers
    ]


def _number_of(tx: Transaction, turn: Turn) -> int:
    """The number of a run whose turn was inserted."""
    number = tx.numbers.get(turn.run_id)
    return int(_rows(tx, [turn])[0][0]) if number is None else number


def _apply(tx: Transaction, turns: Sequence[Turn], now: Instant | None) -> None:
    """Do what inserted turns do beside the journal."""
    changes: dict[str, Row] = {}
    taken: list[int] = []
    ended: list[tuple[int, str]] = []
    outs: list[tuple[int, Turn]] = []
    at = tx.now(now)
    for turn in turns:
        taken.extend(turn.taken)
        if turn.change is not None:
            number = _number_of(tx, turn)
            changes[turn.run_id] = _change(tx, number, turn.change, turn.seq + 1, at)
            if turn.change.status.is_final:
                ended.append((number, turn.run_id))
        if turn.out is not None:
            outs.append((_number_of(tx, turn), turn))
    if taken:
        ids = as_json(taken)
        tx.run("drop_messages", {"ids": ids})
        tx.run("take_cancels", {"ids": ids})
    if changes:
        _change_runs(tx, changes)
    if outs:
        give_out(tx, outs, at)
    if ended:
        after_ends(tx, ended, at)


def write_rows(tx: Transaction, writes: Sequence[RowWrite], _: Instant | None) -> list[bool]:
    """Row-only writes: park, hand back or block a run. To end one takes a turn."""
    asked = as_json([(write.run_id, write.worker_id, write.epoch) for write in writes])
    held: dict[int, int] = dict(tx.packed(["write_rows"], {"namespace_id": tx.namespace_id, "writes": asked}))
    changes: dict[str, Row] = {}
    released: set[str] = set()
    answers = []
    for index, write in enumerate(writes):
        is_held = index in held and write.run_id not in released
        answers.append(is_held)
        if is_held:
            changes[write.run_id] = _change(tx, held[index], write.change, write.next_seq, None)
            if write.change.release:
                released.add(write.run_id)
    if changes:
        _change_runs(tx, changes)
    return answers


_ENDED_AT, _RELEASED = 3, 4
_NULL = ""
"""What change_runs takes for NULL."""


def _change(tx: Transaction, number: int, change: RowChange, next_seq: int | None, ended_at: Instant | None) -> Row:
    """A row for change_runs."""
    # As in `_rows`, and the driver looks for an adapter of None, too.
    is_final = change.status.is_final
    return (
        number,
        change.status.value,
        _NULL if is_final or change.due_at is None else change.due_at,
        _NULL if not is_final or ended_at is None else ended_at,
        int(change.release or is_final),
        _NULL if next_seq is None else next_seq,
        change.crashes,
        _NULL if change.blocked is None else change.blocked,
        _NULL if change.output is None else bytearray(change.output),
        _NULL if change.error is None else bytearray(change.error),
        _NULL if tx.max_retention is None else tx.max_retention,
    )


def _change_runs(tx: Transaction, changes: dict[str, Row]) -> None:
    tx.rows("change_runs", list(changes.values()))
    is_work = False
    for run_id, row in changes.items():
        if row[_RELEASED]:
            tx.numbers.pop(run_id, None)
            is_work = is_work or row[_ENDED_AT] == _NULL
    if is_work:
        tx.news |= News.WORK
