"""Forks: a fork shares another run's history up to a step, and goes its own way from there.

- Its journal begins with the other one's, entry by entry, up to the input that caused the ask for that step; with an
  edited result also with that ask and those beside it. Nothing that came after the cut is in it.
- Results of steps asked for before the cut are kept, each once and unchanged; an edited result is the step's. So none
  of these steps begins in the fork (P3). All other results were returned by the fork's own steps, under its own keys.
- The other run stays as it was: its row, its journal and its waits.
"""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.model import (
    ASKS,
    Blocked,
    Cancel,
    Checkpoint,
    Entry,
    Inherited,
    JournalRow,
    NewRun,
    Reopened,
    Reseeded,
    RunRecord,
    RunRetrying,
    Started,
    StepAsked,
    StepCompleted,
    WaitRecord,
    decode_entries,
    encode_entries,
    history_of,
)
from holdfast.store import Store

from .oracle import Oracle


@dataclass(slots=True)
class Asked:
    """A fork that a client has asked for."""

    source: str
    at: str | None
    result: bytes | None = None
    input: bytes | None = None
    rows: Sequence[JournalRow] = field(default_factory=tuple)
    """The journal as the client has read it."""


_ASKED = tuple(kind for kind in ASKS if kind is not Checkpoint)
asking: contextvars.ContextVar[Asked | None] = contextvars.ContextVar("simulated_fork", default=None)
"""The fork that the current task of a client asks for."""


class Forks:
    """Checks the forks of one world."""

    def __init__(self, oracle: Oracle, store: Store, do: Callable[[Callable[[], Awaitable[Any]]], Any]) -> None:
        self._oracle = oracle
        self._store = store
        self._do = do
        self._asked: dict[str, Asked] = {}
        self._before: dict[str, tuple[RunRecord | None, list[JournalRow], list[WaitRecord]]] = {}
        """The state of the forked run just before the store began the fork."""

    def is_asked(self, run: NewRun) -> None:
        """A client asks the store to begin this run."""
        asked = asking.get()
        if asked is not None and is_fork(run):
            self._asked[run.id] = asked

    def arrives(self, runs: Sequence[NewRun]) -> None:
        """The store is about to begin these runs."""
        for run in runs:
            if run.forked_from is not None and is_fork(run):
                self._before[run.id] = self._state(run.forked_from)

    def began(self, run: NewRun) -> None:
        """The store has begun a run."""
        asked = self._asked.get(run.id)
        if run.rows and run.forked_from is not None and self._oracle.runs[run.forked_from].version != run.version:
            # No live worker knew its version, so it was given to the newest: see ARCHITECTURE.md.
            self._oracle.astray.add(run.id)
        if asked is None:
            return
        oracle, name = self._oracle, self._oracle.label(run.id)
        oracle.note(
            f"{name} is a fork of {oracle.label(asked.source)} at {asked.at}"
            f"{'' if asked.result is None else ', with another result'}"
            f"{'' if asked.input is None else ', with another input'}"
        )
        if self._before.pop(run.id) != self._state(asked.source):
            oracle.report("forks", f"{name} has changed {oracle.label(asked.source)}, of which it is a fork")
        source = oracle.runs[asked.source]
        if run.input != (source.input if asked.input is None else asked.input):
            oracle.report("forks", f"{name} has another input than it should")
        if asked.at is None:
            if run.rows:
                oracle.report("forks", f"{name} begins anew, and has a history")
            return
        self._check_shared(name, asked, asked.at, [entry for row in run.rows for entry in decode_entries(row)])

    def _state(self, run_id: str) -> tuple[RunRecord | None, list[JournalRow], list[WaitRecord]]:
        return (
            self._do(lambda: self._store.get_run(run_id)),
            self._do(lambda: self._store.read_journal(run_id)),
            self._do(lambda: self._store.read_waits(run_id)),
        )

    def _check_shared(self, name: str, asked: Asked, at: str, begun_with: list[Entry]) -> None:
        known, _, _, lives, *_ = history_of(entry for row in asked.rows for entry in decode_entries(row.data))
        cut = next(n for n, entry in enumerate(begun_with) if isinstance(entry, Reseeded) and entry not in known)
        shared, _, _, shared_lives, *_ = history_of(begun_with[:cut])
        behind = begun_with[cut + 1 :]
        if _attempts(shared_lives) != _attempts(life for life in lives if life[0] < len(shared)):
            self._oracle.report("forks", f"{name} begins with other attempts than the other has lived through")
        if shared != known[: len(shared)]:
            self._oracle.report("forks", f"{name} begins with {_kinds(shared)}, which is not how the other began")
            return
        place = next(n for n, entry in enumerate(known) if isinstance(entry, StepAsked) and entry.key == at)
        self._check_cut(name, asked, known, len(shared), place)
        carried = [one for one in behind if not isinstance(one, (Reopened, Blocked))]
        asks = {entry.key for entry in shared if isinstance(entry, StepAsked)}
        # The step at the cut is asked for anew, even if its ask is shared because it follows a checkpoint.
        kept = asks - {at}
        expected = {one.key: one.result for one in known if isinstance(one, StepCompleted) and one.key in kept}
        if asked.result is not None:
            expected[at] = asked.result
        results = [one for one in (*shared, *carried) if isinstance(one, StepCompleted) and one.key in asks]
        if sorted((one.key, one.result) for one in results) != sorted(expected.items()):
            keys = sorted(one.key for one in results)
            self._oracle.report("forks", f"{name} keeps results of {keys}; it should keep those of {sorted(expected)}")
        others = [one for one in carried if one not in results]
        cause = known[len(shared)] if asked.result is None and 0 < len(shared) < len(known) else None
        if others not in ([], [cause]):
            self._oracle.report("forks", f"{name} also takes along {_kinds(others)}, from behind the cut")

    def _check_cut(self, name: str, asked: Asked, known: list[Entry], shared: int, place: int) -> None:
        """Everything before the input that caused the ask is shared; of what follows it only the asks, if the result is
        edited."""
        between = known[shared:place] if shared <= place else known[place:shared]
        if asked.result is None:
            inputs = [one for one in between if not isinstance(one, (*ASKS, Inherited, Reseeded))]
            # What came before a checkpoint is unknown, and nobody sends a cancel again: both are shared, with the asks
            # that follow.
            last = next(one for one in reversed(known[:place]) if not isinstance(one, (*_ASKED, Inherited, Reseeded)))
            is_open = shared > place and isinstance(last, (Checkpoint, Cancel)) and not inputs
            is_right = is_open or (shared <= place and len(inputs) == 1)
        else:
            is_right = shared > place and all(isinstance(one, ASKS) for one in between)
        if not is_right:
            self._oracle.report("forks", f"{name} is cut after {shared} entries, for step {place} of {_kinds(known)}")


def is_fork(run: NewRun) -> bool:
    """Whether the run is a fork. A retry stays in the chain of the run that it retries."""
    return run.forked_from is not None and run.chain_id is None


def reseeded(run: NewRun, seed: bytes, source: Sequence[Entry]) -> NewRun:
    """The same run with another seed, and for a fork also another one after its cut. A run that goes on from one that
    had begun, whose journal is `source`, keeps its seed."""
    rows = run.rows
    if is_fork(run):
        rows = tuple(encode_entries(_reseeded(decode_entries(row), seed[::-1])) for row in rows)
    is_kept = any(isinstance(entry, Started) and entry.seed == run.seed for entry in source)
    return msgspec.structs.replace(run, seed=run.seed if is_kept else seed, rows=rows)


def _reseeded(entries: list[Entry], seed: bytes) -> list[Entry]:
    at = max(n for n, entry in enumerate(entries) if isinstance(entry, Reseeded))
    return [*entries[:at], msgspec.structs.replace(entries[at], seed=seed), *entries[at + 1 :]]


def inherited(run: NewRun) -> set[tuple[str, bytes]]:
    """The results that a run was begun with: another run's steps have returned them, or the client that forked it gave
    them."""
    entries = (entry for row in run.rows for entry in decode_entries(row))
    return {(entry.key, entry.result) for entry in entries if isinstance(entry, StepCompleted)}


def _attempts(lives: Iterable[tuple[int, RunRetrying]]) -> list[tuple[int, int]]:
    """Where the tries of a run begin, and their numbers."""
    return [(begins, last.attempt) for begins, last in lives]


def _kinds(entries: Sequence[Entry]) -> str:
    return " ".join(entry.kind for entry in entries) or "nothing"
