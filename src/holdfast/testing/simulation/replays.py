"""P4 and P5 after the fact: every journal, replayed by a fresh execution, gives the same asks and the same end."""

from __future__ import annotations

from asyncio import events
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import msgspec

from holdfast.codec import Codec
from holdfast.define import RunInfo, Workflow
from holdfast.engine import Advance, Execution, Runners, describe
from holdfast.errors import RunCrashed
from holdfast.model import (
    ASKS,
    FORCED,
    Blocked,
    Cancel,
    Checkpoint,
    ChildAsked,
    Claimed,
    Ended,
    Entry,
    History,
    Inherited,
    Instant,
    Patched,
    Relived,
    RunRecord,
    RunRetrying,
    RunStatus,
    Started,
    StepAsked,
    StepCompleted,
    StepFailed,
    TimerFired,
    Undo,
    history_of,
    instant_of,
)

from .nodes import Code
from .oracle import Journal, Oracle, Trace
from .steps import work

SLACK = 3_000_000


class Replays:
    """Replays journals with the code that wrote them."""

    def __init__(self, oracle: Oracle, codec: Codec, dice: Random) -> None:
        self.codes: dict[Code, dict[str, Workflow[Any, Any]]] = {}
        self.marks: frozenset[str] | None = None
        """The changes whose new way the checked run goes; None: `patched` decides."""
        self.is_under_way = False
        """Whether bodies that begin now are ours, and no worker's."""
        self.trace: Trace | None = None
        self.punctual_from: Instant | None = None
        """From this time on no timer may be late."""
        self.is_unwanted = False
        """The checked run was asked to end, or has a deadline."""
        self.is_forced = False
        """The checked run was ended by force."""
        self.is_forked = False
        """The checked run is a retry or a fork of another one."""
        self.fired_before: frozenset[int] = frozenset()
        """Timers that fired in the run it was forked from, and fire anew, since its step follows from them."""
        self._oracle = oracle
        self._codec = codec
        self._runners = Runners()
        self._dice = dice

    def close(self) -> None:
        """Nothing is replayed any more."""
        self._runners.close()

    def first_asks(self, record: RunRecord, entries: Sequence[Entry], workflow: Workflow[Any, Any]) -> frozenset[str]:
        """The steps that follow from a run's start alone, and from the entries that came with it."""
        seed = self._oracle.runs[record.id].seed
        assert record.started_at is not None
        execution = self._execution(record, seed, workflow)
        self.is_under_way, self.marks = True, None
        history = history_of(entries)
        try:
            execution.replay(history.entries, history.lives, history.carried)
            done = execution.advance([Started(instant_of(record.started_at), seed)])
        finally:
            self.is_under_way = False
            execution.put_away()
        return frozenset(entry.key for entry in done.entries if isinstance(entry, StepAsked))

    def check(self, record: RunRecord, journal: Journal) -> None:
        """Check every try of the run, from its start to its end or as far as it has come."""
        tries = [n for n, entry in enumerate(journal.entries) if isinstance(entry, (RunRetrying, Ended))]
        if not tries or tries[-1] != len(journal.entries) - 1:
            tries.append(len(journal.entries))
        before = journal.entries[-2] if len(journal.entries) > 1 else None
        self.is_unwanted = self._oracle.is_called_off(record) or record.deadline_at is not None
        self.is_forked = record.forked_from is not None
        self.is_forced = isinstance(before, Claimed) and before.worker_id == FORCED
        self.fired_before = _taken_over(journal.entries) if self.is_forked else frozenset()
        for number, end in enumerate(tries, 1):
            history = history_of(journal.entries[:end])
            closing = journal.entries[end] if end < len(journal.entries) else None
            if history.retrying is None and history.entries:
                self.marks = _marks(history.entries)
                self._check_try(record, history, closing, number)

    def check_change(self, record: RunRecord, journal: Journal) -> None:
        """Code that asks `patched` fits every journal, and a run that began with it goes the new way."""
        name, code = self._oracle.label(record.id), self._oracle.code.get(record.id, [])
        history = history_of(journal.entries)
        started = next((entry for entry in history.entries if isinstance(entry, Started)), None)
        if "patched" not in self.codes or history.retrying is not None or started is None:
            return
        execution = self._execution(record, started.seed, self.codes["patched"][record.workflow])
        self.is_under_way, self.marks = True, None
        # The last input may be the one that ended the body.
        last = max(at for at, entry in enumerate(history.entries) if not isinstance(entry, ASKS))
        try:
            execution.replay(history.entries[:last], tuple(life for life in history.lives if life[0] <= last))
        except Exception as error:
            self._oracle.report("versions", f"{name} does not match code that asks for its changes: {error}")
        finally:
            self.is_under_way = False
            execution.put_away()
        marks = _marks(journal.entries)
        for (run_id, number), seen in self._oracle.seen.items():
            for _, change, way in (item for item in seen if run_id == record.id and item[0] == "way"):
                if way == "new" and change not in marks:
                    self._oracle.report("versions", f"{name} goes the new way of {change!r} in try {number}, unmarked")
                if way == "old" and code[:1] == ["patched"] and not self._oracle.runs[record.id].rows:
                    self._oracle.report("versions", f"{name} began with new code, and goes the old way of {change!r}")

    def _check_try(self, record: RunRecord, history: History, closing: Entry | None, number: int) -> None:
        """Check that the body does the same, live from where this try began, and rebuilt from some prefix and then
        live."""
        first = history.lives[-1][0] if history.lives else 0
        if any(isinstance(entry, Checkpoint) for entry in history.entries[1:2]):
            # A machine is never begun anew from its checkpoint, but restored, with what it had asked for.
            after = (at for at, entry in enumerate(history.entries) if at > first and not isinstance(entry, ASKS))
            first = next(after, len(history.entries))
        cuts = [at for at, entry in enumerate(history.entries) if at >= first and not isinstance(entry, ASKS)]
        chosen = {first} | {self._dice.choice(cuts) for _ in range(2) if cuts}
        for cut in sorted(chosen):
            self._check_from(record, history, cut, closing, number)

    def _check_from(self, record: RunRecord, history: History, cut: int, closing: Entry | None, number: int) -> None:
        entries = history.entries
        name = self._oracle.label(record.id)
        started = next((entry for entry in entries if isinstance(entry, Started)), None)
        if started is None:
            # The run was begun with something to undo, and nothing of it has happened yet.
            return
        execution = self._execution(record, started.seed)
        self.is_under_way, self.trace = True, None
        try:
            try:
                execution.replay(entries[:cut], history.lives)
            except Exception as error:
                self._oracle.report("P5", f"{name} can't be replayed up to entry {cut}: {error}")
                return
            inputs = [entry for entry in entries[cut:] if not isinstance(entry, ASKS)]
            since = max(
                history.lives[-1][1].retry_at if history.lives else 0, self._oracle.resumed_at.get(record.id, 0)
            )
            self._go_on(name, execution, inputs, entries[cut:], closing, since)
        finally:
            self.is_under_way = False
            execution.put_away()
        known = self._oracle.seen.get((record.id, number), [])
        seen: list[tuple[object, ...]] = self.trace.items if self.trace is not None else []
        if cut == 0 and isinstance(closing, Ended) and not self._is_from_outside(closing):
            self._check_undone(record, entries, closing, seen)
        # A worker that dropped the run before it learned that its last turn was accepted may have seen less.
        if seen[: len(known)] != known:
            at = next((n for n, (a, b) in enumerate(zip(seen, known, strict=False)) if a != b), len(seen))
            self._oracle.report(
                "P4",
                f"replayed, the body of {name} sees {seen[at : at + 1]} as sighting {at}; "
                f"live it saw {known[at : at + 1]}",
            )

    def _errand(self, undo: Undo) -> int:
        (number, _), _ = self._codec.arguments(work).unpack(self._codec.open(undo.args))
        return int(number)

    def _check_undone(
        self, record: RunRecord, entries: Sequence[Entry], closing: Ended, seen: Sequence[tuple[object, ...]]
    ) -> None:
        """A run that failed or was cancelled has undone what it registered, last first, and any other run nothing."""
        name = self._oracle.label(record.id)
        registered = [item[1] for item in reversed(seen) if item[0] == "registers"]
        for entry in entries:
            if isinstance(entry, Inherited):
                registered += [self._errand(undo) for undo in reversed(entry.undo)]
        expected = registered if closing.status in (RunStatus.FAILED, RunStatus.CANCELLED) else []
        keys = [one.key for one in entries if isinstance(one, StepAsked) and one.key.partition(":")[0] == "undo"]
        done = [self._oracle.errand_of(record.id, key) for key in keys]
        if done != expected:
            self._oracle.report(
                "compensation", f"{name} is {closing.status} with {expected} to be undone, in this order; it did {done}"
            )
        ends = {one.key for one in entries if isinstance(one, (StepCompleted, StepFailed))}
        if not ends.issuperset(keys):
            self._oracle.report("compensation", f"{name} has ended before what undoes it")

    def _go_on(
        self,
        name: str,
        execution: Execution,
        inputs: list[Any],
        expected: list[Entry],
        closing: Entry | None,
        since: Instant,
    ) -> None:
        """Deliver the inputs one by one, and compare the outcome with what the journal holds."""
        done = Advance([], [], [])
        found: list[Entry] = []
        for entry, *unseen in _with_cancels(inputs):
            if isinstance(entry, TimerFired) and entry.timer in execution.loop.timers:
                due_at = execution.loop.timers[entry.timer].due_at
                if due_at > entry.at and entry.timer not in self.fired_before:
                    self._oracle.report("P5", f"timer {entry.timer} of {name} fired before it was due")
                if (
                    self.punctual_from is not None
                    and due_at > max(self.punctual_from, since)
                    and entry.at - due_at > SLACK
                ):
                    late = (entry.at - due_at) / 1_000_000
                    self._oracle.report("P6", f"timer {entry.timer} of {name} fired {late:.1f}s late")
            done = execution.advance([entry, *unseen])
            found += done.entries
        end = done.ended or done.retrying
        if end is not None:
            found.remove(end)
        if self.is_forked:
            # It began with another run's history, whose children are named after that run.
            found, expected = _nameless(found), _nameless(expected)
        if found != expected:
            at = next((n for n, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), 0)
            self._oracle.report(
                "P5",
                f"replayed, {name} gives {_told(found, at)} as entry {at}; "
                f"its journal holds {_told(expected, at)} there",
            )
        elif self._is_from_outside(closing) or self._is_called_off(end, closing):
            return
        elif _gist(end, self._codec) != _gist(closing, self._codec):
            self._oracle.report("P5", f"replayed, {name} comes to {end}; its journal says {closing}")

    def _is_called_off(self, end: Entry | None, closing: Entry | None) -> bool:
        """Whether the run was not tried again only because of a cancel, or a deadline, that came with its failure,
        unseen."""
        if not isinstance(end, RunRetrying) or not isinstance(closing, Ended) or not self.is_unwanted:
            return False
        return _error(end.error, self._codec) == _error(closing.error, self._codec)

    def _is_from_outside(self, closing: Entry | None) -> bool:
        """Whether the body had no part in the end: it came by force, after too many crashes, undone by a client's
        retry, or from another run whose history this one shares."""
        if isinstance(closing, RunRetrying):
            return closing.attempt == 0 or isinstance(closing, Relived)
        if not isinstance(closing, Ended):
            return False
        if closing.error is not None:
            return isinstance(self._codec.decode_exception(closing.error), RunCrashed)
        return self.is_forced and closing.status == RunStatus.CANCELLED

    def _execution(self, record: RunRecord, seed: bytes, workflow: Workflow[Any, Any] | None = None) -> Execution:
        deadline = record.deadline_at
        info = RunInfo(
            id=record.id,
            workflow=record.workflow,
            version=record.version,
            key=record.key,
            tags=record.tags,
            priority=record.priority,
            chain_id=record.chain_id,
            origin_id=record.origin_id,
            parent_id=record.parent_id,
            created_at=instant_of(record.created_at),
            started_at=instant_of(record.started_at or record.created_at),
            deadline_at=None if deadline is None else instant_of(deadline),
        )
        if workflow is None:
            workflow = self.codes[self._code_of(record)][record.workflow]
        # Every process of a world has a loop of its own, and this may be called on any of them.
        self._runners.host = events._get_running_loop()
        return Execution(workflow, info, record.input, seed, self._codec, self._runners)

    def _code_of(self, record: RunRecord) -> Code:
        """The code that last took a turn of the run."""
        if record.version != "1":
            return "second"
        made_by = self._oracle.code.get(record.id, ["first"])[-1]
        return made_by if made_by == "patched" else "first"


def _nameless(entries: Sequence[Entry]) -> list[Entry]:
    """The entries without the ids of children."""
    return [msgspec.structs.replace(entry, run_id="") if isinstance(entry, ChildAsked) else entry for entry in entries]


def _with_cancels(inputs: Sequence[Any]) -> Iterator[list[Any]]:
    """The inputs one by one, but a cancel together with the input before it: if that makes the body fail, the run is
    undone and not tried again."""
    together: list[Any] = []
    for entry in inputs:
        if together and not isinstance(entry, Cancel):
            yield together
            together = []
        together.append(entry)
    if together:
        yield together


def _taken_over(entries: Sequence[Entry]) -> frozenset[int]:
    """The timers among the entries with which a fork begins."""
    at = next((n for n, entry in enumerate(entries) if isinstance(entry, Blocked)), len(entries))
    coming = entries[at + 1 : at + 2]
    return frozenset(entry.timer for entry in coming if isinstance(entry, TimerFired))


def _marks(entries: Sequence[Entry]) -> frozenset[str]:
    return frozenset(entry.change_id for entry in entries if isinstance(entry, Patched))


def _told(entries: Sequence[Entry], at: int) -> str:
    return describe(entries[at]) if at < len(entries) else "nothing"


def _gist(end: Entry | None, codec: Codec) -> tuple[object, ...]:
    """An end without the text of its traceback, which depends on how the body was run."""
    if isinstance(end, Ended):
        return end.at, end.status, end.output, _error(end.error, codec)
    if isinstance(end, RunRetrying):
        return end.at, end.attempt, end.retry_at, end.first_at, _error(end.error, codec)
    return (end,)


def _error(stored: bytes | None, codec: Codec) -> str | None:
    if stored is None:
        return None
    error = codec.decode_exception(stored)
    return f"{type(error).__name__}: {error}"
