"""What really happened: the events of a world, the journals as the store holds them, and what steps did outside.

Nothing here is part of the code under test. The oracle stands outside and remembers, and the laws read it.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from holdfast.model import (
    Blocked,
    Entry,
    History,
    Instant,
    JournalRow,
    NewRun,
    Reopened,
    RunRecord,
    RunRetrying,
    Started,
    StepAsked,
    StepCompleted,
    StepFailed,
    StepRetrying,
    decode_entries,
    history_of,
)

from .nodes import Code

_TAIL = 60


class LawBroken(Exception):
    """A promise was not kept. `law` is its name, as in "P3"."""

    def __init__(self, law: str, said: str) -> None:
        super().__init__(f"{law}: {said}")
        self.law = law


class Journal:
    """A run's journal as the store holds it, and what it means."""

    def __init__(self) -> None:
        self.rows: list[JournalRow] = []
        self.entries: list[Entry] = []
        self._seen_at: list[int] = []
        self._history: History | None = None

    def add(self, row: JournalRow, seen_at: int) -> None:
        self.rows.append(row)
        self._seen_at.append(seen_at)
        self.entries += decode_entries(row.data)
        self._history = None

    @property
    def history(self) -> History:
        if self._history is None:
            self._history = history_of(self.entries)
        return self._history

    @property
    def is_broken(self) -> bool:
        """Whether some inputs were taken in anew: after a cut, or after the body was blocked."""
        return any(isinstance(entry, (RunRetrying, Blocked, Reopened)) for entry in self.entries)

    def tries(self, seq: int) -> int:
        """How often the run had been tried as a whole before a row: once, and once more for each retry."""
        entries = [entry for row in self.rows[:seq] for entry in decode_entries(row.data)]
        return 1 + sum(isinstance(entry, RunRetrying) for entry in entries)

    @property
    def has_started(self) -> bool:
        """Whether the history that counts has a beginning: a retry may have cut it off."""
        return any(isinstance(entry, Started) for entry in self.history.entries)

    def asked(self, key: str) -> bool:
        """Whether the step is asked for in the history that counts."""
        return any(isinstance(entry, StepAsked) and entry.key == key for entry in self.history.entries)

    def was_asked(self, key: str) -> bool:
        """Whether the step was ever asked for."""
        return any(isinstance(entry, StepAsked) and entry.key == key for entry in self.entries)

    def result(self, key: str) -> Entry | None:
        """The step's recorded end, in the history that counts."""
        for entry in (*self.history.entries, *self.history.carried):
            if isinstance(entry, (StepCompleted, StepFailed)) and entry.key == key:
                return entry
        return None

    def retrying(self, key: str) -> StepRetrying | None:
        """The last failed attempt of an open step."""
        found = None
        for entry in self.history.entries:
            if isinstance(entry, StepRetrying) and entry.key == key:
                found = entry
        return found

    def seen_at(self, entry: Entry) -> int:
        """When the entry was first seen, in the world's own time."""
        rows = zip(self.rows, self._seen_at, strict=True)
        return next(at for row, at in rows if entry in decode_entries(row.data))


class Trace:
    """What one body saw, in order."""

    def __init__(self, oracle: Oracle, run_id: str, number: int, body: Any, *, is_ours: bool) -> None:
        self.is_ours = is_ours
        """Whether the body is one of our own replays, and no worker's."""
        self.run_id = run_id
        self.number = number
        """The number of the try of the run, from 1."""
        self.items: list[tuple[object, ...]] = []
        self._oracle = oracle
        self._body = body

    @property
    def is_replaying(self) -> bool:
        return bool(self._body.is_replaying)

    def see(self, *what: object) -> None:
        if not self._body.is_dead:
            self.items.append(what)
            if not self.is_ours:
                with self._oracle.judging():
                    self._oracle.saw(self)

    def stumbles(self) -> bool:
        return not (self.is_ours or self.is_replaying or self._body.is_dead) and self._oracle.stumbles(self.run_id)

    def went_on(self, what: str) -> None:
        self._oracle.report(
            "P9", f"{what} gave an answer to a body of {self._oracle.label(self.run_id)} that is being put away"
        )


class Oracle:
    """The memory of one world."""

    def __init__(self, now: Callable[[], int], halt: Callable[[LawBroken], None]) -> None:
        self.tail: deque[str] = deque(maxlen=_TAIL)
        self.count = 0
        self.listener: Callable[[str], None] | None = None
        self.broken: LawBroken | None = None
        self.runs: dict[str, NewRun] = {}
        """Every run that was created, in order."""
        self.journals: dict[str, Journal] = {}
        self.ended: dict[str, RunRecord] = {}
        """The records of ended runs when their end was first seen."""
        self.cancelled: set[str] = set()
        """Live runs that a client has cancelled."""
        self.called_off: set[str] = set()
        """Children whose parents have cancelled them while going on themselves."""
        self.seen: dict[tuple[str, int], list[tuple[object, ...]]] = {}
        """What the body of a run saw in each of its tries, as far as that is durable."""
        self.results: dict[str, set[tuple[int, int]]] = {}
        """What steps have returned, by idempotency key: (attempt, value)."""
        self.items: dict[tuple[str, int, str, str], int] = {}
        """The items of maps, by run, try, code and idempotency key."""
        self.begun: set[tuple[str, str, int, int]] = set()
        """The steps that have begun: run, key, attempt, epoch."""
        self.kills: dict[str, int] = {}
        """How often each run's own step has killed the process since its last turn."""
        self.gone: set[str] = set()
        """Runs that were deleted or swept."""
        self.began_at: dict[str, int] = {}
        """When clients and events have started each run, by the store's clock."""
        self.code: dict[str, list[Code]] = {}
        """The code that has made each turn of a run."""
        self.astray: set[str] = set()
        """Retries and forks that go on with another version than the original run's."""
        self.paused: set[str] = set()
        self.resumed_at: dict[str, Instant] = {}
        """When each run was last resumed: its timers had to wait for that."""
        self.emitted: dict[tuple[str, int, bytes], list[bytes]] = {}
        """What an execution of a step has sent to its stream, by idempotency key, attempt and result."""
        self.bookings: dict[tuple[str, str, bytes], int] = {}
        """The executions of transactional steps, by run, key and result."""
        self.undone: dict[tuple[str, str], int] = {}
        """The number of the errand that each compensation did, by run and key."""
        self.executions = 0
        self.stumbles: Callable[[str], bool] = lambda _: False
        """Whether a live body is to do I/O now, which blocks its run."""
        self.is_muted = False
        self.now = now
        self._halt = halt
        self._labels: dict[str, str] = {}
        self._digest = blake2b(digest_size=12)

    def note(self, said: str) -> None:
        """Log one event. Two executions of a seed must have the same log, so nothing in it may be random."""
        if self.is_muted:
            return
        self.count += 1
        line = f"{self.now() / 1_000_000:12.6f} {said}"
        self.tail.append(line)
        self._digest.update(line.encode())
        if self.listener is not None:
            self.listener(line)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def report(self, law: str, said: str) -> None:
        """A law was broken. The first report ends the world."""
        if self.broken is None and not self.is_muted:
            self.note(f"BROKEN {law}: {said}")
            self.broken = LawBroken(law, said)
            self._halt(self.broken)

    def failed(self, error: Exception) -> None:
        """The simulation itself has failed. No promise was broken, but the seed is needed to find out why."""
        where = "".join(traceback.format_exception(error))
        self.report("simulation", f"it failed itself, and has judged nothing: {where}")

    @contextmanager
    def judging(self, *expected: type[Exception]) -> Iterator[None]:
        """An exception raised in this block ends the world as a fault of the simulation, unless it is expected: a step
        or a body under test would take it for a failure of its own, and go on."""
        try:
            yield
        except expected:
            raise
        except Exception as error:
            self.failed(error)
            raise

    def label(self, run_id: str) -> str:
        """The name of a run in the log: ids made by a client are random."""
        return self._labels.setdefault(run_id, f"run{len(self._labels) + 1}")

    def is_called_off(self, record: RunRecord) -> bool:
        """Whether a client, the parent, or the parent's end has asked a run to end."""
        if record.id in self.cancelled or record.id in self.called_off or record.chain_id in self.called_off:
            return True
        return record.parent_id in self.ended and self.runs[record.id].on_parent_end == "cancel"

    def saw(self, trace: Trace) -> None:
        """A body saw something. On replay it must be what was seen before."""
        if trace.is_replaying:
            self._compare(trace, len(trace.items) - 1)

    def durable(self, trace: Trace) -> None:
        """Everything that this body has seen so far is in the journal."""
        for number in range(len(trace.items)):
            self._compare(trace, number)

    def _compare(self, trace: Trace, number: int) -> None:
        known = self.seen.setdefault((trace.run_id, trace.number), [])
        if number >= len(known):
            known.append(trace.items[number])
        elif known[number] != trace.items[number]:
            self.report(
                "P4",
                f"the body of {self.label(trace.run_id)} saw {trace.items[number]} as sighting {number}, where it had "
                f"seen {known[number]} before",
            )

    def returned(self, idempotency_key: str, attempt: int, value: int) -> None:
        self.results.setdefault(idempotency_key, set()).add((attempt, value))

    def charged(self, run_id: str, number: int, code: Code, idempotency_key: str, value: int) -> None:
        """An item of a map executes. Each item has an idempotency key of its own, the same for every execution. A later
        try of the run, or changed code of which no ask was recorded, may use that key for another item."""
        known = self.items.setdefault((run_id, number, code, idempotency_key), value)
        if known != value:
            self.report("keys", f"two items, {known} and {value}, go by {idempotency_key!r}")

    def origin(self, run_id: str) -> str:
        """The run with which the run's life began: for a retry that of the run it retries, for any other the run
        itself."""
        run = self.runs.get(run_id)
        if run is None or run.forked_from is None or run.chain_id is None:
            return run_id
        return self.origin(run.forked_from)

    def errand_of(self, run_id: str, key: str) -> int | None:
        """The errand that a compensation of a run did. What a fork was begun with the original run did."""
        found = self.undone.get((run_id, key))
        run = self.runs.get(run_id)
        if found is not None or run is None or run.forked_from is None:
            return found
        return self.errand_of(run.forked_from, key)

    def new_execution(self) -> int:
        """A new number for an execution of a step, so that two executions return different values."""
        self.executions += 1
        return self.executions
