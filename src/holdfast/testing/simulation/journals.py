"""Journals as the store holds them: P2 (rows never change), P3 (one result), P7 (an end is the end)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from holdfast.model import (
    Checkpoint,
    Ended,
    Instant,
    JournalRow,
    RunRecord,
    StepCompleted,
    StepFailed,
    WaitRecord,
    decode_entries,
    instant_of,
)
from holdfast.store import Store

from .mail import Mail, heard_twice
from .oracle import Journal, Oracle

LONGEST = 105
"""How many rows a machine's journal may have: it writes a checkpoint every hundred states."""


class Journals:
    """The journals of one world, and the laws about them."""

    def __init__(self, oracle: Oracle, store: Store, do: Callable[[Callable[[], Awaitable[Any]]], Any]) -> None:
        self._oracle = oracle
        self._store = store
        self._do = do
        self.mail = Mail(oracle)

    def journal(self, run_id: str) -> Journal:
        """The journal as it was last seen."""
        return self._oracle.journals.setdefault(run_id, Journal())

    def record(self, run_id: str) -> RunRecord:
        if run_id in self._oracle.gone:
            return self._oracle.ended[run_id]
        found: RunRecord | None = self._do(lambda: self._store.get_run(run_id))
        if found is None:
            self._oracle.report("retention", f"{self._oracle.label(run_id)} is gone, and nobody has removed it")
            raise LookupError(run_id)
        return found

    def _is_there(self, run_id: str) -> bool:
        return self._do(lambda: self._store.get_run(run_id)) is not None

    def _is_news(self, run_id: str) -> bool:
        """Whether a run in the store is unknown here, or should have been removed."""
        return run_id not in self._oracle.runs or run_id in self._oracle.gone

    def free(self, now: Instant) -> frozenset[str]:
        """The runs that are due and have no owner."""
        return frozenset(
            run_id for run_id in self._oracle.runs if run_id not in self._oracle.ended and self._is_free(run_id, now)
        )

    def _is_free(self, run_id: str, now: Instant) -> bool:
        record = self.record(run_id)
        is_due = record.due_at is not None and instant_of(record.due_at) < now
        return is_due and record.owner is None and not record.paused

    def waits(self, run_id: str) -> list[WaitRecord]:
        """The waits that the run has registered."""
        found: list[WaitRecord] = self._do(lambda: self._store.read_waits(run_id))
        return found

    def has_unmatched(self) -> bool:
        """Whether there are events that nobody has looked at."""
        return bool(self._do(lambda: self._store.read_unmatched(1)).events)

    def chain_began(self, record: RunRecord) -> Instant:
        """When the first run of its chain was created."""
        return min(
            instant_of(self.record(run_id).created_at)
            for run_id in self._oracle.runs
            if self.mail.chain(run_id) == record.chain_id
        )

    def look(self, run_id: str) -> None:
        """Read a journal again: P2 (rows never change, epochs never fall), P3 (one result), P7 (an end is the end)."""
        journal, oracle = self.journal(run_id), self._oracle
        if run_id in oracle.gone:
            return
        rows: list[JournalRow] = self._do(lambda: self._store.read_journal(run_id))
        name = oracle.label(run_id)
        first = rows[0].seq if rows else 0
        seen = max(len(journal.rows) - first, 0)
        if rows[:seen] != journal.rows[first:]:
            oracle.report("P2", f"rows of {name} that were durable have changed or gone")
            return
        if first and not any(isinstance(entry, Checkpoint) for entry in decode_entries(rows[0].data)):
            oracle.report("machines", f"{name} begins with row {first}, which is no checkpoint")
        if len(rows) > LONGEST and oracle.runs[run_id].workflow == "machine":
            oracle.report("machines", f"{name} has {len(rows)} rows, and should have dropped some")
        for row in rows[seen:]:
            if row.seq != len(journal.rows):
                oracle.report("P2", f"row {row.seq} of {name} stands where row {len(journal.rows)} should")
            if journal.rows and row.epoch < journal.rows[-1].epoch:
                oracle.report("P2", f"row {row.seq} of {name} has epoch {row.epoch}, lower than the row before it")
            if any(isinstance(entry, Ended) for entry in journal.entries):
                oracle.report("P7", f"{name} has row {row.seq} after its end")
            before = len(journal.entries)
            journal.add(row, oracle.now())
            self._check_results(journal, name)
            self.mail.took(oracle.runs[run_id], journal, row.seq, journal.entries[before:])
        self._check_end(run_id, journal, name)

    def _check_results(self, journal: Journal, name: str) -> None:
        ends: set[str] = set()
        for entry in (*journal.history.entries, *journal.history.carried):
            if isinstance(entry, (StepCompleted, StepFailed)):
                if entry.key in ends:
                    self._oracle.report("P3", f"step {entry.key!r} of {name} has two results")
                ends.add(entry.key)
        key = heard_twice(journal)
        if key is not None:
            self._oracle.report("children", f"{name} heard twice that its child {key!r} has ended")

    def _check_end(self, run_id: str, journal: Journal, name: str) -> None:
        oracle = self._oracle
        last = journal.entries[-1] if journal.entries else None
        ended = last if isinstance(last, Ended) else None
        record = self.record(run_id)
        if record.status.is_final != (ended is not None):
            oracle.report("P7", f"{name} is {record.status}, but its journal {'has' if ended else 'has no'} end")
        if ended is None:
            return
        if (ended.status, ended.output, ended.error) != (record.status.value, record.output, record.error):
            oracle.report("P7", f"the end of {name} in its journal, {ended.status}, is not that of its row")
        if run_id not in oracle.ended:
            oracle.ended[run_id] = record
            self.mail.ended(oracle.runs[run_id], record)
        first = oracle.ended[run_id]
        if first != record:
            oracle.report("P7", f"{name} has changed after its end, from {first.status} to {record.status}")
            return
        if record.blocked is not None or record.owner is not None or record.due_at is not None:
            oracle.report("P7", f"{name} has ended and still has an owner, a due time or a reason to be blocked")


class Holding(Protocol):
    """What is needed of a run that a worker holds."""

    seq: int
    epoch: int
    is_committing: bool


def is_letting_go(held: Holding, journal: Journal) -> bool:
    """Whether the holder's own turn has ended the run or given it back, and the holder has yet to learn of it.

    P2 is about workers that were overtaken. This one was not: nobody else has written, and its lease holds. A step that
    stood in line when the turn was sent, for a slot or for a transaction, may begin until the turn is known to be
    accepted: a durable turn has asked for it (P1), and nothing comes of it. The answer withdraws its attempt, and the
    writes of a transactional step are refused, for its place in the journal is taken.
    """
    if not held.is_committing or not journal.rows:
        return False
    return (journal.rows[-1].seq, journal.rows[-1].epoch) == (held.seq, held.epoch)
