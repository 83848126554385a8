"""Retry: a new run that goes on where a failed or cancelled one stopped. Pure, except for `joined_by`.

The new run begins with the old run's history and a `run_retrying` entry, at which replay makes its cut: recorded
results of steps that were asked for before the last failure are kept, and the failed step is open again. The new run
belongs to the old one's chain and goes on with its life, so that steps keep their idempotency keys.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from uuid import UUID

from holdfast.errors import AlreadyCompensated, NotRetryable
from holdfast.model import (
    FORCED,
    NAMELESS,
    Checkpoint,
    ChildAsked,
    ChildEnded,
    Claimed,
    Ended,
    Entry,
    Former,
    HookResumed,
    Inherited,
    Instant,
    JournalRow,
    Lane,
    NewRun,
    RunRecord,
    RunRetrying,
    RunStatus,
    Started,
    Stopped,
    Undoing,
    encode_entries,
    history_of,
    instant_of,
    next_child_id,
)
from holdfast.store import Guest, Store

from .entries import entries_of

RETRYABLE = (RunStatus.FAILED, RunStatus.CANCELLED)
_DRAWN = re.compile(r"~[0-9a-f]{8,}(~[0-9]+)*$")
"""The end of ids that a run draws for its children, including those of later tries."""


def check_retryable(record: RunRecord) -> None:
    """Raise NotRetryable for a run that is live, or has ended otherwise than failed or cancelled."""
    if record.status in RETRYABLE:
        return
    if record.successor_id is not None:
        advice = f"it went on as run {record.successor_id}: retry that one, or the last that went on"
    elif record.status.is_final:
        advice = "it did not fail: start a new run instead"
    else:
        advice = "it has not ended: wait for it, or cancel it first"
    raise NotRetryable(
        f"run {record.id} of {record.workflow!r} is {record.status} and can't be retried; {advice}", record.id
    )


def retry_of(
    record: RunRecord, rows: Sequence[JournalRow], *, id: str, lane: Lane, at: Instant, joined: Sequence[str] = ()
) -> NewRun:
    """The run with this `id` that goes on, at the time `at`, where `record` stopped; `rows` are that run's journal.

    `joined` are the keys of children that the new run joins again: see `joined_by`.
    """
    entries = entries_of(record.id, rows)
    history = [entry for entry in entries if not isinstance(entry, (Claimed, Ended))]
    if any(isinstance(entry, Undoing) for entry in history):
        raise AlreadyCompensated(
            f"run {record.id} of {record.workflow!r} has undone what it had done, so it can't go on where it stopped; "
            'start a new run (on_conflict="restart" gives it the key), or fork this one at a step'
        )
    has_begun = any(isinstance(entry, (Started, Checkpoint, Inherited)) for entry in history)
    begun = _row(history, record, at, tuple(joined), _ended_by_force(entries), _hooks(entries)) if has_begun else None
    return NewRun(
        id=id,
        workflow=record.workflow,
        version=lane.version,
        input=record.input,
        seed=seed_of(entries),
        # A run without a journal may have drawn from its seed, too. The store copies the seed from its row.
        keeps_seed=True,
        queue=lane.queue,
        key=record.key,
        # If another run has taken the key since, that run is returned.
        on_conflict="return",
        takes_key_of=record.id if record.key is not None else None,
        deadline=time_given(record),
        priority=record.priority,
        tags=record.tags,
        retention=record.retention,
        has_own_retention=True,
        chain_id=record.chain_id,
        origin_id=record.origin_id,
        forked_from=record.id,
        rows=() if begun is None else (begun,),
    )


def time_given(record: RunRecord) -> int | None:
    """How long the run had from its creation to its deadline: a run that goes on from it has as long."""
    if record.deadline_at is None:
        return None
    return max(instant_of(record.deadline_at) - instant_of(record.created_at), 0)


def seed_of(entries: Iterable[Entry]) -> bytes:
    """The seed that a body drew from, by its journal, for a run that goes on from it. A new one if the body never
    began."""
    started = next((entry for entry in entries if isinstance(entry, Started)), None)
    return secrets.token_bytes(16) if started is None else started.seed


def retry_id(record: RunRecord) -> str:
    """The id of the run that retries this one when it is retried by a filter: always the same."""
    # With the time of creation, since an id may be used again once its run was deleted.
    drawn = blake2b(f"{record.id}/{instant_of(record.created_at)}".encode(), person=b"holdfast retry", digest_size=16)
    return str(UUID(bytes=drawn.digest(), version=4))


async def joined_by(store: Store | Guest, record: RunRecord, rows: Sequence[JournalRow]) -> list[str]:
    """The keys of those children with ids of their own that the end of the run has not called off: the run had only
    joined them, and somebody else has begun them; or they have completed.
    """
    entries = entries_of(record.id, rows)
    owners = {record.id, *(one.former.id for one in entries if isinstance(one, RunRetrying) and one.former is not None)}
    joined: list[str] = []
    for key, tried in _named(entries, owners).items():
        child = last = await store.get_run(tried[-1])
        while last is not None and last.successor_id is not None:
            last = await store.get_run(last.successor_id)
        has_completed = last is not None and last.status is RunStatus.COMPLETED
        if child is not None and (child.parent_id not in owners or has_completed):
            joined.append(key)
    return joined


def _named(entries: Sequence[Entry], owners: Iterable[str]) -> dict[str, list[str]]:
    """The ids that each child with an id of its own has had, by its key: the one that the body gave it, then those of
    its replacements in later tries of the run (see engine.Child)."""
    named: dict[str, list[str]] = {}
    for entry in entries:
        if isinstance(entry, ChildAsked):
            named.pop(entry.key, None)
            # The run has drawn the other ids by itself: nobody else can have begun those children.
            if not _is_drawn(entry.run_id, owners):
                named[entry.key] = [entry.run_id]
        elif isinstance(entry, RunRetrying):
            for key, tried in named.items():
                if key in entry.failed or (entry.former is not None and key not in entry.joined):
                    tried.append(next_child_id(tried[0], tried, entry.attempt))
    return named


def _is_drawn(run_id: str, owners: Iterable[str]) -> bool:
    """Whether one of these runs has drawn the id for a child. It does not suffice that it begins with the run's id, for
    a body may give ids like that, too."""
    return run_id.startswith(tuple(f"{owner}." for owner in owners)) and _DRAWN.search(run_id) is not None


def children_kept(run_id: str, rows: Iterable[JournalRow]) -> set[str]:
    """The children whose ends stay in the history of this run's retry. All others that it asks for are begun anew."""
    entries = entries_of(run_id, rows)
    retrying = RunRetrying(0, 0, b"", 0, 0, is_whole=_ended_by_force(entries))
    history = history_of([*entries, retrying])
    return {entry.run_id for entry in (*history.entries, *history.carried) if isinstance(entry, ChildEnded)}


def _ended_by_force(entries: Sequence[Entry]) -> bool:
    """Whether a cancel by force has ended a run that could have gone on. Then nothing of its history is cut off.

    It is otherwise if the run was blocked, say because its code did not match its journal: the retry may come with
    mended code, and goes on from the last failure, or the last input, as after any other end.
    """
    is_forced = any(isinstance(entry, Claimed) and entry.worker_id == FORCED for entry in entries[-2:-1])
    return is_forced and isinstance(entries[-1], Stopped) and not entries[-1].was_blocked


def _row(
    history: Sequence[Entry],
    record: RunRecord,
    at: Instant,
    joined: tuple[str, ...],
    is_whole: bool,
    hooks: tuple[str, ...],
) -> bytes:
    at = max([at, *(entry.at for entry in history if hasattr(entry, "at"))])
    former = Former(
        record.id,
        instant_of(record.created_at),
        instant_of(record.started_at or record.created_at),
        None if record.deadline_at is None else instant_of(record.deadline_at),
        record.trace,
    )
    failed = tuple(entry.key for entry in history if isinstance(entry, ChildEnded) and entry.is_failure)
    # Attempt 0: after a retry by hand, all of the workflow's own retries are available again.
    return encode_entries(
        [*history, RunRetrying(at, 0, record.error or b"", at, at, former, failed, hooks, joined, is_whole)]
    )


def _hooks(history: Iterable[Entry]) -> tuple[str, ...]:
    """The names of the hooks that the run has made, as far as its journal tells.

    If the run was not ended by its body, or its journal was written by an older version, only the hooks that were
    resumed are known.
    """
    names: list[str] = []
    for entry in history:
        if isinstance(entry, (RunRetrying, Ended)):
            names = [*entry.hooks, *names[len(entry.hooks) :]]
        elif isinstance(entry, HookResumed) and entry.hook:
            names += [NAMELESS] * (entry.hook - len(names))
            if names[entry.hook - 1] == NAMELESS:
                names[entry.hook - 1] = entry.name
    return tuple(names)
