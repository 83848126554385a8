"""replay: run today's code against a journal, without a store, a worker or any I/O."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any, TypeAlias

import msgspec

from holdfast.client import Journal, JournalEntry
from holdfast.codec import Codec, message_of
from holdfast.define import RunInfo, Workflow, current_scope, logger, wrong_workflow
from holdfast.engine import Execution, Runners, describe
from holdfast.errors import DeadlineExceeded, DefinitionError, JournalDiverged
from holdfast.model import (
    ASKS,
    ChildAsked,
    Claimed,
    Ended,
    Entry,
    Instant,
    JournalRow,
    Patched,
    RunRecord,
    RunRetrying,
    RunStatus,
    Started,
    StepAsked,
    decode_entries,
    encode_entries,
    history_of,
    instant_of,
    moment_of,
)

from .guards import guarded

AnyJournal: TypeAlias = Journal | Iterable[JournalEntry] | Iterable[JournalRow] | Iterable[Entry] | bytes


@dataclass(frozen=True, slots=True)
class Replayed:
    """The outcome of a replay: how many entries the journal has, and the run's end or what the run waits for."""

    entries: int
    status: RunStatus | None
    """How the run ended; None if it has not."""
    waits_for: tuple[str, ...] = ()
    """Open steps and timers, as text."""


class _Exported(msgspec.Struct, frozen=True):
    """The exported form of a journal."""

    run: RunRecord
    entries: bytes


def export_journal(journal: Journal) -> bytes:
    """A journal as bytes, to be kept beside the tests and replayed against later versions of the code."""
    return msgspec.msgpack.encode(_Exported(journal.run, encode_entries([item.entry for item in journal])))


def replay(
    journal: AnyJournal,
    workflow: Workflow[..., Any],
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    codec: Codec | None = None,
) -> Replayed:
    """Check that a workflow's code still matches a journal: that it asks for the same things in the same order.

        journal = await client.journal(run_id)           # or the bytes of export_journal(journal)
        replay(journal, checkout)

    No step is executed and nothing is written. If they don't match, JournalDiverged reports what the journal holds,
    what the code asked for and where; also if the run has ended and its body would now end otherwise. Whether a failed
    run would be tried again does not count. Raises NeverAwaited, NotDecodable and IOInBody as a worker would.

    A client's journal has its run's arguments; for rows or bare entries give them as `args` and `kwargs`. Give `codec`
    if the journal was written with one that encrypts.
    """
    if not isinstance(workflow, Workflow):
        raise DefinitionError(f"replay(..., {workflow!r}): {wrong_workflow(workflow)}")
    codec = codec or Codec()
    run, entries = _opened(journal)
    # From the history, since a machine's `started` may be in its checkpoint only.
    started = next((entry for entry in history_of(entries).entries if isinstance(entry, Started)), None)
    if started is None:
        # Nothing was ever delivered: the run has not begun, or was cancelled before it did.
        return Replayed(len(entries), _status(entries), () if _ended(entries) else ("its first turn",))
    if run is not None:
        input = run.input
    else:
        input = codec.seal(codec.arguments(workflow.fn).check(tuple(args), dict(kwargs or {})))
    info = _info(run, workflow, started.at)
    with guarded(), closing(Runners()) as runners:
        execution = Execution(workflow, info, input, started.seed, codec, runners)
        try:
            return _replay(execution, entries, codec)
        finally:
            execution.put_away()


def _replay(execution: Execution, entries: list[Entry], codec: Codec) -> Replayed:
    found = history_of(entries)
    history = found.entries
    ended = _ended(entries)
    if ended is None or not _is_own_end(entries):
        execution.replay(history, found.lives, found.carried)
        return Replayed(len(entries), _status(entries), _waits(execution) if ended is None else ())
    # The last input delivered made the body end: replay up to it, then deliver it again as a new input.
    last = max(index for index, entry in enumerate(history) if not isinstance(entry, ASKS))
    execution.replay(history[:last], found.lives, history[last : last + 1])
    with _silent(execution):
        done = execution.advance([history[last]])  # type: ignore[list-item]  # an entry that is no ask is an input
    _compare(execution, history[last + 1 :], done.entries[1:], at=last + 1)
    new_end = done.ended
    if done.retrying is not None:
        # The code would retry the run now. It was not retried, under an older policy or because a cancel came with the
        # failure. Only the failure is compared.
        new_end = Ended(done.retrying.at, RunStatus.FAILED, None, done.retrying.error)
    if new_end is None:
        raise _diverged(execution, len(history), _end_text(ended, codec), "nothing; the body goes on waiting")
    if _end(ended, codec) != _end(new_end, codec):
        raise _diverged(execution, len(history), _end_text(ended, codec), _end_text(new_end, codec))
    return Replayed(len(entries), _status(entries))


@contextmanager
def _silent(execution: Execution) -> Iterator[None]:
    """Drop what the body logs in its last turn: it was logged when it first happened, as in all turns before."""

    def is_of_others(record: logging.LogRecord) -> bool:
        # The first argument of the engine's records is the run that they are about.
        run = record.args[0] if isinstance(record.args, tuple) and record.args else None
        return current_scope.get() is not execution and run is not execution.run

    loggers = (logger, logging.getLogger("holdfast.engine"))
    for each in loggers:
        each.addFilter(is_of_others)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(is_of_others)


def _compare(execution: Execution, held: Sequence[Entry], asked: Sequence[Entry], *, at: int) -> None:
    """Compare what the body asks for in its last turn. `patched` doesn't count: code may ask it more often, or less."""
    ignored = (Patched, Ended, RunRetrying)
    held, asked = ([entry for entry in entries if not isinstance(entry, ignored)] for entries in (held, asked))
    for number, (old, new) in enumerate(zip_longest(held, asked), at):
        if not _is_same(old, new):
            holds, asks = ("nothing more" if entry is None else describe(entry) for entry in (old, new))
            raise _diverged(execution, number, holds, asks)


def _is_same(old: Entry | None, new: Entry | None) -> bool:
    if isinstance(old, (StepAsked, ChildAsked)) and type(new) is type(old):
        return (old.key, old.digest) == (new.key, new.digest)
    return old == new


def _diverged(execution: Execution, number: int, holds: str, asked: str) -> JournalDiverged:
    return JournalDiverged(
        f"{execution.run!r} does not match its journal at entry {number}.\n"
        f"  the journal holds: {holds}\n"
        f"  the code asked for: {asked}\n"
        "Give changed code a new version= and keep the old one for the runs in flight."
    )


def _opened(journal: AnyJournal) -> tuple[RunRecord | None, list[Entry]]:
    """The run, if the journal has it, and the entries of a journal in any form."""
    if isinstance(journal, (bytes, bytearray, memoryview)):
        try:
            exported = msgspec.msgpack.decode(journal, type=_Exported)
            return exported.run, decode_entries(exported.entries)
        except msgspec.MsgspecError as error:
            raise DefinitionError(f"replay: these bytes are not an exported journal: {error}") from error
    run = journal.run if isinstance(journal, Journal) else None
    entries: list[Entry] = []
    for item in journal:
        if isinstance(item, JournalEntry):
            entries.append(item.entry)
        elif isinstance(item, JournalRow):
            entries += decode_entries(item.data)
        elif isinstance(item, msgspec.Struct):
            entries.append(item)
        else:
            raise DefinitionError(
                f"replay: {item!r} is no entry of a journal; expected what client.journal(id) returns"
            )
    return run, entries


def _info(run: RunRecord | None, workflow: Workflow[..., Any], started_at: Instant) -> RunInfo:
    if run is None:
        return RunInfo(
            id="replayed", workflow=workflow.name, version=workflow.version, key=None, tags={}, priority=0,
            chain_id="replayed", origin_id="replayed", parent_id=None, created_at=started_at, started_at=started_at,
            deadline_at=None,
        )  # fmt: skip  # one line a group reads better here
    if run.workflow != workflow.name:
        raise DefinitionError(f"this is the journal of a run of {run.workflow!r}, not of {workflow.name!r}")
    info = RunInfo(
        id=run.id, workflow=run.workflow, version=run.version, key=run.key, tags=run.tags, priority=run.priority,
        chain_id=run.chain_id, origin_id=run.origin_id, parent_id=run.parent_id, created_at=instant_of(run.created_at),
        started_at=started_at, deadline_at=_instant(run.deadline_at),
    )  # fmt: skip  # as above
    info.caller_trace = run.trace
    return info


def _instant(moment: datetime | None) -> Instant | None:
    return None if moment is None else instant_of(moment)


def _ended(entries: Sequence[Entry]) -> Ended | None:
    last = entries[-1] if entries else None
    return last if isinstance(last, Ended) else None


def _status(entries: Sequence[Entry]) -> RunStatus | None:
    ended = _ended(entries)
    return None if ended is None else RunStatus(ended.status)


def _is_own_end(entries: Sequence[Entry]) -> bool:
    """Whether the body ended the run. An end from outside follows a takeover, which writes `claimed`."""
    return len(entries) > 1 and not isinstance(entries[-2], Claimed)


def _end(ended: Ended, codec: Codec) -> tuple[object, ...]:
    """The part of an end that can be compared.

    Not tracebacks, since any change of the code changes them. Not the successor, nor DeadlineExceeded's message, since
    they contain the run's id, which entries alone don't have.
    """
    if ended.error:
        error = codec.decode_exception(ended.error)
        return ended.status, type(error), "" if isinstance(error, DeadlineExceeded) else message_of(error)
    if ended.status == RunStatus.CONTINUED:
        return (ended.status,)
    return ended.status, None if ended.output is None else codec.open(ended.output)


def _end_text(ended: Ended, codec: Codec) -> str:
    if ended.error:
        error = codec.decode_exception(ended.error)
        return f"the end, {ended.status} with {type(error).__name__}: {message_of(error)}"
    if ended.output is None:
        return f"the end, {ended.status}"
    return f"the end, {ended.status} with {codec.open(ended.output).decode(errors='replace')}"


def _waits(execution: Execution) -> tuple[str, ...]:
    steps = [f"step {key!r}" for key in execution.commands]
    timers = sorted(execution.loop.timers.values(), key=lambda timer: timer.due_at)
    return (*steps, *(f"timer until {moment_of(timer.due_at):%Y-%m-%d %H:%M:%S}" for timer in timers))
