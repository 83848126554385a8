"""Fork: a new run that shares another run's history up to a cut, and goes its own way from there. Pure.

The cut is at a step. Without a `result` the new run asks for the step anew, and for all that was asked together with
it. With a `result`, that is the step's result in the new run. Recorded results of steps that were asked for before the
cut are kept. The new run is the first of a chain of its own, so its steps have idempotency keys of their own. Up to the
cut its body draws what the other run's body drew; from there on it has a seed of its own.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import msgspec

from holdfast.errors import NoSuchStep
from holdfast.model import (
    ASKS,
    Blocked,
    Cancel,
    Checkpoint,
    ChildAsked,
    Ended,
    Entry,
    Inherited,
    Instant,
    JournalRow,
    Lane,
    NewRun,
    Relived,
    Reopened,
    Reseeded,
    RunRecord,
    Started,
    StepAsked,
    StepCompleted,
    StepFailed,
    encode_entries,
    history_of,
    new_id,
)

from .entries import entries_of
from .retries import seed_of, time_given


def fork_of(
    record: RunRecord,
    rows: Sequence[JournalRow],
    *,
    at: str | None,
    input: bytes | None,
    result: bytes | None,
    lane: Lane,
    now: Instant,
) -> NewRun:
    """The new run of a fork. `at` is the key of a step; None: it begins from the very start."""
    # From the start there is nothing to share, so a journal that can't be read does not matter.
    entries = [] if at is None else entries_of(record.id, rows)
    shared = () if at is None else (encode_entries(_shared(record, entries, at, result, now)),)
    return NewRun(
        id=new_id(),
        workflow=record.workflow,
        version=lane.version,
        queue=lane.queue,
        input=record.input if input is None else input,
        seed=secrets.token_bytes(16) if at is None else seed_of(entries),
        deadline=time_given(record),
        priority=record.priority,
        tags=record.tags,
        retention=record.retention,
        has_own_retention=True,
        forked_from=record.id,
        keeps_seed=at is not None,
        rows=shared,
    )


def _shared(record: RunRecord, entries: list[Entry], at: str, result: bytes | None, now: Instant) -> list[Entry]:
    history, _, _, lives, *_ = history_of(entries)
    place = next((i for i, entry in enumerate(history) if isinstance(entry, StepAsked) and entry.key == at), None)
    if place is None:
        keys = [entry.key for entry in history if isinstance(entry, StepAsked)]
        known = ", ".join(keys[:20]) or "none"
        if any(isinstance(entry, Checkpoint) for entry in history):
            raise NoSuchStep(
                f"fork(at={at!r}): the journal begins at a checkpoint, and what run {record.id} did before is "
                f"no longer in it. No step of the rest has the key {at!r}; it holds: {known}"
            )
        raise NoSuchStep(
            f"fork(at={at!r}): run {record.id} never asked for a step with that key; it asked for: {known}"
        )
    cause = max(i for i in range(place) if not isinstance(history[i], (*ASKS, Inherited, Reseeded)))
    until: tuple[str, ...] | None = None
    if result is None and not _is_shared(history, cause):
        before, coming, until = _cut_before(history, cause, place)
    else:
        after = next((i for i in range(place, len(history)) if not isinstance(history[i], ASKS)), len(history))
        if after == len(history) and _ends_with_asks(entries):
            how, what = ("", "") if result is None else (", result=...", "without one, or ")
            raise NoSuchStep(
                f"fork(at={at!r}{how}): run {record.id} ended in the very turn that asked for this step, which "
                f"never began, so nobody waits for its result; fork it {what}at an earlier step"
            )
        before, coming = history[:after], [] if result is None else [StepCompleted(now, at, 1, result)]
    asked = {entry.key for entry in before if isinstance(entry, (StepAsked, ChildAsked))}
    ended = {entry.key for entry in (*before, *coming) if isinstance(entry, (StepCompleted, StepFailed))} | {at}
    kept = [
        entry
        for entry in history[len(before) :]
        if isinstance(entry, StepCompleted) and entry.key in asked and entry.key not in ended
    ]
    carried: list[Entry] = [*coming, *kept]
    # In the shared history a body is told the attempt that it was told then: what it asked for may depend on that.
    for begins, last in reversed([life for life in lives if life[0] < len(before)]):
        before.insert(begins, Relived(*msgspec.structs.astuple(last)))
    before = [*before, Reseeded(now, secrets.token_bytes(16), until)]
    if len(before) == 1:
        return before
    # Children, hooks and waits that were open at the cut are asked for anew, as the new run's own.
    before.append(Reopened(now))
    return [*before, Blocked(now, len(carried)), *carried] if carried else before


def _is_shared(history: list[Entry], cause: int) -> bool:
    """Whether a fork at a step that follows from this input keeps the input in its history, with the step open.

    A checkpoint stands for everything before it in a machine, so it can't be delivered anew. Nor can a cancel, which
    nobody would send again: without it the body would never come to its cleanup.
    """
    return isinstance(history[cause], Cancel) or (
        isinstance(history[cause], Started) and isinstance(history[cause + 1], Checkpoint)
    )


def _cut_before(history: list[Entry], cause: int, place: int) -> tuple[list[Entry], list[Entry], tuple[str, ...]]:
    """The history that is kept so that the step at `place` is asked for anew, the input that is delivered then, and the
    keys of what is asked for before the step.

    All that a body asks for after an input follows from that input, so the input before the step is delivered anew.
    """
    until = tuple(entry.key for entry in history[cause:place] if isinstance(entry, (StepAsked, ChildAsked)))
    return history[:cause], [] if isinstance(history[cause], Started) else [history[cause]], until


def _ends_with_asks(entries: Sequence[Entry]) -> bool:
    """Whether the body ended in the same turn as its last asks."""
    return len(entries) > 1 and entries[-1].__class__ is Ended and isinstance(entries[-2], ASKS)
