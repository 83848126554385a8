"""Turns and row-only writes. Whether the row of a turn is inserted decides about everything else in that turn.

A batch is one statement, which inserts each row whose place is free and does what those turns do beside. For the other
turns a second statement finds out whose row is at the place: the turn's own, if its answer was lost the first time. No
batch waits for a row that somebody else has locked: a turn that needs the row is told to come again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from holdfast.errors import StoreAway
from holdfast.model import Instant, RowWrite, RunStatus, Turn, is_text
from holdfast.store.contract import Answer
from holdfast.store.subscribers import News

from .hold_ups import Patience
from .outs import ending, give_out, lock_continued
from .texts import storable
from .transactions import Known, Row, Transaction

T = TypeVar("T")
_log = logging.getLogger("holdfast.store")


async def commit_giving(
    tx: Transaction, items: Sequence[Turn], now: Instant | None, joined: list[int], patience: Patience
) -> list[Answer]:
    """Commit turns that give something out, in a transaction. Numbers of runs that join another are added to
    `joined`."""
    await tx.all("hurry", {"lock_timeout": patience.lock_timeout})
    return await commit_turns(tx, [ending(turn) for turn in items], now, joined)


def row_of(turn: Turn, known: Known) -> Row | None:
    """The parameters of commit_turn, the hot path of a turn that comes alone; None if that statement is not enough."""
    number = known.numbers.get(turn.run_id)
    if number is None or turn.change is not None or turn.taken or turn.run_id in known.unsure:
        return None
    return number, turn.seq, turn.epoch, turn.at, turn.data


async def commit_turns(
    tx: Transaction, items: Sequence[Turn], now: Instant | None, joined: list[int] | None = None
) -> list[Answer]:
    """Commit turns, with an answer for each. Later turns of a run share the answer of one that was not accepted.

    Without `joined`, a list to which the numbers of runs that join another are added, nothing is given out.
    """
    answers: list[Answer] = [False] * len(items)
    # For each run, the first of its turns.
    asked = {turn.run_id: (turn.seq, turn.epoch) for turn in reversed(items)} if tx.known.unsure else {}
    stopped = await lost_by_server(tx, asked, now)
    for places in _rounds(items, lambda turn: turn.run_id):
        part = places
        if stopped:
            part = [place for place in places if items[place].run_id not in stopped]
            for place in places:
                answers[place] = stopped.get(items[place].run_id, False)
        for place, answer in zip(part, await _commit(tx, [items[place] for place in part], now, joined), strict=True):
            answers[place] = answer
            if answer is not True:
                stopped[items[place].run_id] = answer
                if answer is False:
                    tx.known.numbers.pop(items[place].run_id, None)
    return answers


async def _commit(
    tx: Transaction, turns: Sequence[Turn], now: Instant | None, joined: list[int] | None
) -> list[Answer]:
    is_work = False
    numbers = await _numbers(tx, turns)
    held_up = set() if joined is None else await lock_continued(tx, turns, numbers)
    known = [turn for turn in turns if turn.run_id in numbers]
    if not known:
        return [False] * len(turns)
    free = [turn for turn in known if numbers[turn.run_id] not in held_up] if held_up else known
    params: dict[str, Any] = {
        "runs": [numbers[turn.run_id] for turn in free],
        "seqs": [turn.seq for turn in free],
        "epochs": [turn.epoch for turn in free],
        "ats": [turn.at for turn in free],
        "datas": [turn.data for turn in free],
    }
    if any(turn.change is not None or turn.taken for turn in free):
        params |= await _changes(tx, free, numbers, now)
        rows = await tx.all("change_runs", params)
        # An end is news for workers only if it leaves something to do: a run is told of it, or may begin.
        is_work = bool(rows) and rows[0][1]
    else:
        rows = await tx.all("commit_turns", params)
    accepted: dict[int, Answer] = {row[0]: True for row in rows}
    if joined is not None:
        joined += await give_out(tx, [turn for turn in known if numbers[turn.run_id] in accepted], numbers, now)
    if len(accepted) < len(known):
        left = await _left_out(tx, [turn for turn in known if numbers[turn.run_id] not in accepted], numbers)
        accepted |= left
        if True in left.values():
            # These were accepted before, and the answer was lost: nobody was told of what they gave out then.
            tx.news |= News.ANY
    answers = [accepted.get(numbers.get(turn.run_id, 0), False) for turn in turns]
    has_ended = False
    for turn, answer in zip(turns, answers, strict=True):
        if answer is True and turn.change is not None and (turn.change.release or turn.change.status.is_final):
            tx.known.numbers.pop(turn.run_id, None)
            is_work, has_ended = is_work or turn.change.release, has_ended or turn.change.status.is_final
    if is_work:
        tx.news |= News.WORK
    if has_ended:
        tx.news |= News.ENDS
    return answers


async def _left_out(tx: Transaction, turns: Sequence[Turn], numbers: dict[str, int]) -> dict[int, Answer]:
    """The answers to turns whose rows were not inserted.

    A row with the turn's own epoch is at the place: the turn was accepted before, and the answer was lost. A row with
    another epoch: the turn is refused. None: somebody has locked the run, and the turn has to come again.
    """
    params = {"runs": [numbers[turn.run_id] for turn in turns], "seqs": [turn.seq for turn in turns]}
    epochs = {row[0]: row[1] for row in await tx.all("find_turns", params)}
    answers: dict[int, Answer] = {}
    for turn in turns:
        number = numbers[turn.run_id]
        if number in epochs:
            epoch = epochs[number]
            answers[number] = busy(turn.run_id) if epoch is None else epoch == turn.epoch
    return answers


async def lost_by_server(
    tx: Transaction, asked: Mapping[str, tuple[int | None, int]], now: Instant | None
) -> dict[str, Answer]:
    """The answers to writes, given as {run: (next seq, epoch)}, to runs of which the server has lost a turn or the
    claim.

    To accept such a turn would leave a hole in the journal. The run goes on from what is there, and steps execute
    again.
    """
    unsure = [run_id for run_id in asked if run_id in tx.known.unsure]
    if not unsure:
        return {}
    params = {
        "namespace_id": tx.namespace_id,
        "ids": unsure,
        "seqs": [asked[run_id][0] for run_id in unsure],
        "epochs": [asked[run_id][1] for run_id in unsure],
        "workers": list(tx.known.worker_lanes),
        "now": now,
    }
    lost: dict[str, bool] = {row[0]: row[1] for row in await tx.all("give_back_lost", params)}
    # Runs that have lost something stay unsure: if this answer is lost, the same turn comes again.
    tx.known.unsure.difference_update(set(unsure).difference(lost))
    for run_id in lost:
        _log.warning("the database has lost the last turns of run %s: it goes on from what is there", run_id)
        # It may also have been deleted, and another have its id.
        tx.known.forget_removed(run_id, is_known=True)
        tx.news |= News.WORK
    return {run_id: False if is_settled else busy(run_id) for run_id, is_settled in lost.items()}


def busy(run_id: str) -> StoreAway:
    """The answer to a write that needs the row of a run which somebody else has locked."""
    return StoreAway(
        f"another transaction has locked the run {run_id}. It goes on when that one ends: if it was left open, end it"
    )


async def _numbers(tx: Transaction, turns: Sequence[Turn]) -> dict[str, int]:
    known = tx.known.numbers
    # `get`, for other threads may forget numbers at any time.
    numbers = {turn.run_id: number for turn in turns if (number := known.get(turn.run_id)) is not None}
    missing = {turn.run_id: turn.created_at for turn in turns if turn.run_id not in numbers and is_text(turn.run_id)}
    if missing:
        rows = await tx.all("find_numbers", {"namespace_id": tx.namespace_id, "ids": list(missing)})
        # Not remembered, for this process does not hold these runs.
        for run_id, number, created_at in rows:
            if missing[run_id] in (None, created_at):
                numbers[run_id] = number
            else:
                # The claim was of a run that was deleted.
                tx.known.forget_removed(run_id, is_known=True)
    return numbers


async def _changes(
    tx: Transaction, turns: Sequence[Turn], numbers: dict[str, int], now: Instant | None
) -> dict[str, Any]:
    """The parameters of change_runs beside the journal's rows."""
    changes = [(turn, turn.change) for turn in turns if turn.change is not None]
    # An end gets the time of its turn, unless a test moves the clock: the server need not be asked.
    ended = [(turn.at if now is None else now) if change.status.is_final else None for turn, change in changes]
    return {
        "changing": [turn.change is not None for turn in turns],
        "changed": [numbers[turn.run_id] for turn, _ in changes],
        "statuses": [change.status.value for _, change in changes],
        "due_ats": [None if change.status.is_final else change.due_at for _, change in changes],
        "ended_ats": ended,
        "released": [change.release or change.status.is_final for _, change in changes],
        "next_seqs": [turn.seq + 1 for turn, _ in changes],
        "crashes": [change.crashes for _, change in changes],
        "blocked": [storable(change.blocked) for _, change in changes],
        "outputs": [change.output for _, change in changes],
        "errors": [change.error for _, change in changes],
        "longest": tx.known.max_retention,
        "taken_runs": [numbers[turn.run_id] for turn in turns for _ in turn.taken],
        "taken_ids": [message_id for turn in turns for message_id in turn.taken],
    }


async def write_rows(tx: Transaction, items: Sequence[RowWrite]) -> list[Answer]:
    """Row-only writes: park, hand back or block runs. To end one takes a turn."""
    lost = await lost_by_server(tx, {write.run_id: (write.next_seq, write.epoch) for write in items}, None)
    answers = [lost.get(write.run_id, False) for write in items]
    is_released = False
    for round in _rounds(items, lambda write: write.run_id):
        places = [place for place in round if items[place].run_id not in lost]
        part = [items[place] for place in places]
        params = {
            "namespace_id": tx.namespace_id,
            "ids": [write.run_id for write in part],
            "owners": [write.worker_id for write in part],
            "epochs": [write.epoch for write in part],
            "statuses": [write.change.status.value for write in part],
            "due_ats": [write.change.due_at for write in part],
            "released": [write.change.release for write in part],
            "next_seqs": [write.next_seq for write in part],
            "crashes": [write.change.crashes for write in part],
            "blocked": [storable(write.change.blocked) for write in part],
        }
        rows = await tx.all("write_rows", params)
        for (position,) in rows:
            write = part[position - 1]
            answers[places[position - 1]] = True
            if write.change.release:
                tx.known.numbers.pop(write.run_id, None)
                is_released = True
                if write.change.status is RunStatus.PENDING and write.change.due_at is not None:
                    # It is due as it was before the claim, which may be below the floor from which claims look.
                    tx.since = write.change.due_at if tx.since is None else min(tx.since, write.change.due_at)
        if len(rows) < len(part):
            for (position,) in await tx.all("find_held", params):
                if answers[places[position - 1]] is not True:
                    answers[places[position - 1]] = busy(part[position - 1].run_id)
    if is_released:
        tx.news |= News.WORK
    return answers


def _rounds(items: Sequence[T], run_of: Callable[[T], str]) -> Iterator[list[int]]:
    """The places of the items, in rounds with at most one item of each run: a statement has no order within itself."""
    left = list(range(len(items)))
    while left:
        seen: set[str] = set()
        now: list[int] = []
        later: list[int] = []
        for place in left:
            run_id = run_of(items[place])
            (later if run_id in seen else now).append(place)
            seen.add(run_id)
        yield now
        left = later
