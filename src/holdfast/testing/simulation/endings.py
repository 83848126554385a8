"""The promises, checked when a world has come to its end, on journals that nobody writes any more."""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.codec import Codec
from holdfast.errors import RunCrashed
from holdfast.model import (
    Claimed,
    Instant,
    NewRun,
    RunRecord,
    RunRetrying,
    StepCompleted,
    StepFailed,
    StepRetrying,
    decode_entries,
)

from .forks import inherited, is_fork
from .laws import Laws
from .loans import Books
from .loop import VirtualLoop
from .oracle import Journal, Oracle
from .programs import Program
from .replays import Replays


class Ended(Protocol):
    """The world, as its judges need it."""

    loop: VirtualLoop
    oracle: Oracle
    codec: Codec
    laws: Laws
    replays: Replays
    books: Books

    def store_now(self) -> Instant: ...

    def program(self, run: NewRun) -> Program: ...


def check_after(world: Ended) -> None:
    """Check all of these promises, for every run."""
    for error in world.loop.lost_errors():
        world.oracle.report("P6", f"an error left a worker's task: {type(error).__name__}: {error}")
    booked: set[tuple[str, str, int]] = set()
    for run_id, run in world.oracle.runs.items():
        world.laws.look(run_id)
        record = world.laws.record(run_id)
        journal = world.laws.journal(run_id)
        _check_crashes(world, run, record, journal)
        _check_steps(world, record, journal)
        world.laws.streams.check_run(run_id, journal, record.chain_id, record.origin_id)
        booked |= _booked(world, run, journal)
        if run.workflow == "machine":
            _check_machine(world, run, record)
        if run_id not in world.oracle.astray:
            world.replays.check(record, journal)
            world.replays.check_change(record, journal)
    _check_books(world, booked)
    world.laws.managing.check_triggers(world.laws.workflows, world.codec)
    if world.oracle.broken is None:
        world.laws.managing.sweep_all(world.store_now() + 10**15, world.books)


def _booked(world: Ended, run: NewRun, journal: Journal) -> set[tuple[str, str, int]]:
    """What the transactional steps of a run should have written, by its journal."""
    entries = [entry for row in journal.rows[len(run.rows) :] for entry in decode_entries(row.data)]
    known = inherited(run)
    return {
        (run.id, entry.key, world.oracle.bookings.get((run.id, entry.key, entry.result), -1))
        for entry in entries
        if isinstance(entry, StepCompleted)
        and entry.key.partition(":")[0] == "book"
        and (entry.key, entry.result) not in known
    }


def _check_books(world: Ended, booked: set[tuple[str, str, int]]) -> None:
    """P3: what a transactional step writes is there once if its result is recorded, and else not at all."""
    found = world.books.booked()
    for run_id, key, execution in sorted(booked ^ found):
        said = "has a result and wrote nothing" if (run_id, key, execution) in booked else "wrote and has no result"
        world.oracle.report("P3", f"step {key!r} of {world.oracle.label(run_id)} {said}: execution {execution}")


def _check_machine(world: Ended, run: NewRun, record: RunRecord) -> None:
    """A machine that has completed has gone through all its states."""
    if record.status == "completed" and record.output is not None:
        count = world.codec.value(Any).decode(record.output)
        if count != world.program(run).states:
            world.oracle.report("machines", f"{world.oracle.label(run.id)} has ended after {count} states")


def _check_crashes(world: Ended, run: NewRun, record: RunRecord, journal: Journal) -> None:
    """P8: a run that takes its workers down is stopped, and no other run is blamed."""
    error = None if record.error is None else world.codec.decode_exception(record.error)
    name, program = world.oracle.label(run.id), world.program(run)
    if isinstance(error, RunCrashed):
        takeovers = _takeovers(journal)
        if takeovers < program.max_crashes:
            world.oracle.report("P8", f"{name} was stopped as crashing after {takeovers} takeovers without progress")


def _takeovers(journal: Journal) -> int:
    """How many takeovers came after the last progress. The turn that ended the run is left out: it may hold the asks of
    the first turn."""
    count = 0
    for row in reversed(journal.rows[:-1]):
        if not all(isinstance(entry, Claimed) for entry in decode_entries(row.data)):
            break
        count += 1
    return count


def _check_steps(world: Ended, record: RunRecord, journal: Journal) -> None:
    """P3: each recorded result was returned by the step, in the attempt that the entry says, after the failures it
    says."""
    name = world.oracle.label(record.id)
    result = world.codec.result(_returns)
    # A retry of the run keeps results and forgets the failures before them.
    is_whole = not any(isinstance(entry, RunRetrying) for entry in journal.entries)
    is_plain = record.workflow != "machine"
    failures: dict[str, int] = {}
    origin = world.oracle.runs[record.origin_id]
    # Results that a fork was begun with were returned in the run it stems from.
    shared = inherited(origin) if is_fork(origin) else set()
    for entry in journal.history.entries:
        if isinstance(entry, StepCompleted) and (entry.key, entry.result) in shared:
            continue
        if isinstance(entry, StepRetrying):
            if is_whole and entry.attempt != failures.get(entry.key, 0) + 1:
                world.oracle.report("P3", f"step {entry.key!r} of {name} has attempt {entry.attempt} out of turn")
            failures[entry.key] = entry.attempt
        elif isinstance(entry, (StepCompleted, StepFailed)):
            if is_whole and entry.attempt != failures.get(entry.key, 0) + 1:
                world.oracle.report("P3", f"step {entry.key!r} of {name} ended in attempt {entry.attempt} out of turn")
            if isinstance(entry, StepCompleted) and not entry.key.partition(":")[0].endswith(".map") and is_plain:
                value: Any = result.decode(entry.result)
                known = world.oracle.results.get(f"{record.origin_id}/{entry.key}", set())
                if (entry.attempt, value) not in known:
                    world.oracle.report("P3", f"step {entry.key!r} of {name} never returned {value}")


def _returns() -> int:
    """Has the annotation of every step's result."""
    raise NotImplementedError
