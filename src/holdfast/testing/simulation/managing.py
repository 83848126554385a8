"""Pausing, deleting and sweeping runs, and runs that events begin.

- A process that knows that a run is paused takes nothing in for it; a paused run is only claimed to be ended.
- Only ended runs are removed, none before its time, and the first run of a chain last. Nothing of them is left.
- For every event one run begins of each workflow that asks for it, and no second one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast.codec import Codec
from holdfast.define import Workflow
from holdfast.model import Blocked, Claimed, ClaimedRun, Instant, Message, NewRun, Turn, decode_entries, instant_of
from holdfast.store import Store

from .loans import Books
from .mail import Mail
from .oracle import Oracle
from .processes import Process


class Managing:
    """Checks what was done to the runs of a world."""

    def __init__(
        self,
        oracle: Oracle,
        mail: Mail,
        store: Store,
        do: Callable[[Callable[[], Awaitable[Any]]], Any],
        now: Callable[[], Instant],
    ) -> None:
        self._oracle = oracle
        self._mail = mail
        self._store = store
        self._do = do
        self._now = now
        self._told: dict[tuple[str, str], Instant] = {}
        """By process and run: when, by its own clock, the process heard that the run is paused."""

    def paused(self, sender: str, run_ids: Sequence[str], is_paused: bool) -> None:
        """The store has paused or resumed these runs."""
        for run_id in run_ids:
            self._oracle.note(f"{sender} {'pauses' if is_paused else 'resumes'} {self._oracle.label(run_id)}")
            (self._oracle.paused.add if is_paused else self._oracle.paused.discard)(run_id)
            if not is_paused:
                self._oracle.resumed_at[run_id] = self._now()

    def heard(self, process: Process, messages: Sequence[Message]) -> None:
        """A process has read these messages."""
        for message in messages:
            if message.kind == "pause":
                if message.payload == b"paused":
                    self._told[process.name, message.run_id] = process.clock.now()
                else:
                    self._told.pop((process.name, message.run_id), None)

    def claimed(self, sender: str, run: ClaimedRun) -> None:
        self._told.pop((sender, run.id), None)
        if run.id not in self._oracle.paused:
            return
        is_late = run.deadline_at is not None and run.deadline_at <= run.claimed_at
        if is_late or any(message.kind == "cancel" for message in run.inbox):
            # That ends the pause.
            self._oracle.paused.discard(run.id)
        else:
            self._oracle.report("pause", f"{self._oracle.label(run.id)} is paused, and was claimed by {sender}")

    def turned(self, process: Process, turn: Turn) -> None:
        """A turn was accepted. If its process knew that the run is paused, it may hold only what was under way."""
        since = self._told.get((process.name, turn.run_id))
        if since is None or turn.run_id in self._oracle.cancelled or self._has_deadline(turn.run_id):
            return
        entries = decode_entries(turn.data)
        if any(isinstance(entry, Blocked) for entry in entries):
            # These are results of steps that were in flight: recorded now, delivered on resume.
            return
        late = [one.kind for one in entries if not isinstance(one, Claimed) and getattr(one, "at", 0) > since]
        if late:
            self._oracle.report(
                "pause", f"{self._oracle.label(turn.run_id)} is paused, as {process.name} knows, and takes in {late}"
            )

    def _has_deadline(self, run_id: str) -> bool:
        """Whether the run has a deadline, which runs on during a pause."""
        record = self._do(lambda: self._store.get_run(run_id))
        return record is None or record.deadline_at is not None

    def removed(self, sender: str, run_ids: Sequence[str], swept_at: Instant | None) -> list[str]:
        """These runs were removed. Returns the chains of which nothing is left."""
        oracle, empty = self._oracle, []
        for run_id in run_ids:
            name = oracle.label(run_id)
            oracle.note(f"{sender} {'deletes' if swept_at is None else 'sweeps'} {name}")
            record = oracle.ended.get(run_id)
            if record is None:
                oracle.report("retention", f"{name} was removed and had not ended")
                return []
            if swept_at is not None:
                kept = record.retention
                ended_at = record.ended_at
                if kept is None or ended_at is None or instant_of(ended_at) + kept > swept_at:
                    oracle.report("retention", f"{name} was swept before its time")
            if others := set(self._others(run_id)).difference(run_ids):
                oracle.report("retention", f"{name} was removed before {', '.join(map(oracle.label, others))}")
            oracle.gone.add(run_id)
            self._mail.removed(run_id)
            chain = self._mail.chain(run_id)
            if all(one in oracle.gone for one in oracle.runs if self._mail.chain(one) == chain):
                empty.append(chain)
            self._check_gone(run_id, name)
        return empty

    def _check_gone(self, run_id: str, name: str) -> None:
        found = self._do(lambda: self._store.get_run(run_id)), self._do(lambda: self._store.read_journal(run_id))
        if found != (None, []):
            self._oracle.report("retention", f"{name} was removed, and something of it is left")

    def _others(self, run_id: str) -> list[str]:
        """The other runs that are left of the chain that this run began."""
        runs = self._oracle.runs
        return [one for one in runs if one != run_id and one not in self._oracle.gone and runs[one].chain_id == run_id]

    def sweep_all(self, now: Instant, books: Books) -> None:
        """After the end: a sweep removes what has a retention, the rest is deleted, and then nothing may be left."""
        while not self._do(lambda: self._store.sweep(3, events_before=0, now=now)).is_all:
            pass
        for run_id in self._oracle.runs:
            if run_id in self._oracle.gone:
                continue
            is_left = self._do(lambda one=run_id: self._store.get_run(one)) is not None  # type: ignore[misc]
            kept = [one for one in (run_id, *self._others(run_id)) if self._oracle.ended[one].retention is None]
            if is_left is not bool(kept):
                said = "is still there" if is_left else "was removed, and is kept for ever"
                self._oracle.report("retention", f"{self._oracle.label(run_id)} {said} after a sweep")
        self._do(lambda: self._store.delete_runs(list(self._oracle.runs)))
        left = {name: count for name, count in books.counts().items() if count}
        if left:
            self._oracle.report("retention", f"all runs are deleted, and there are still rows in {left}")

    def check_triggers(self, workflows: dict[str, Workflow[Any, Any]], codec: Codec) -> None:
        """After the end: each event has begun one run."""
        for workflow in workflows.values():
            if workflow.on_event is None:
                continue
            begun = [run.input for run in self._oracle.runs.values() if _is_begun(run, workflow)]
            for payload in self._mail.events.get(workflow.on_event, {}):
                count = begun.count(codec.call_with(payload))
                if count != 1:
                    self._oracle.report("events", f"{payload!r} has begun {count} runs of {workflow.name}, not one")


def _is_begun(run: NewRun, workflow: Workflow[Any, Any]) -> bool:
    return run.workflow == workflow.name and run.id.startswith(f"{workflow.name}@event-") and run.forked_from is None
