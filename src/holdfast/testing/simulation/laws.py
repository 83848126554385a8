"""The promises, checked while a world runs: whenever a step begins, and after everything that the store does.

P4, P5 and P9 are also watched while bodies run (oracle.py), and checked after the end by replays.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from holdfast.define import Context, StepInfo, Workflow
from holdfast.model import (
    Claimed,
    ClaimedRun,
    Ended,
    NewRun,
    Out,
    RowWrite,
    RunRecord,
    RunStatus,
    Sent,
    StartedRun,
    StepCompleted,
    Turn,
    decode_entries,
)
from holdfast.store import Store

from .forks import Forks
from .journals import Journals, is_letting_go
from .keys import Keys
from .managing import Managing
from .network import Sender
from .oracle import Journal, Oracle
from .processes import Hand, Process
from .replays import Replays
from .steps import states_before
from .streams import Streams


class Laws(Journals):
    """The laws of one world."""

    def __init__(
        self,
        oracle: Oracle,
        store: Store,
        do: Callable[[Callable[[], Awaitable[Any]]], Any],
        replays: Replays,
        now: Callable[[], int],
    ) -> None:
        self.has_store_jumped = False
        """The store's clock was set: leases may end early without their holders' knowledge."""
        self.has_clock_jumped = False
        """Some clock was set: what was written by it may be due at the wrong time."""
        self.frozen: frozenset[str] = frozenset()
        """The runs that the changed code does not match."""
        self.looks: dict[str, frozenset[str]] = {}
        """By worker id of a drive: the runs that were due and had no owner when it last looked, and that it left."""
        self.claims: dict[str, int] = {}
        """By worker id: how many runs it was given."""
        self.workflows: dict[str, Workflow[Any, Any]] = {}
        super().__init__(oracle, store, do)
        self._replays = replays
        self._now = now
        self.streams = Streams(oracle, self.mail, store, do)
        self.managing = Managing(oracle, self.mail, store, do, now)
        self.forks = Forks(oracle, store, do)
        self.keys = Keys(oracle, self.record)
        self._owners: dict[str, tuple[Sender, str]] = {}
        """By run: who claimed it last, and as which worker."""
        self._first_asks: dict[tuple[str, str], frozenset[str]] = {}

    def begins(self, hand: Hand, step: StepInfo) -> None:
        """Check P1, P2, P3, P10 and the idempotency key when a step begins: the one moment at which something happens
        outside."""
        oracle = self._oracle
        if oracle.is_muted:
            return
        what = f"step {step.key!r} of {oracle.label(step.run_id)} was begun by {hand.worker_id}"
        journal = self.journal(step.run_id)
        if not journal.was_asked(step.key) and not self._follows_from_start(hand, journal, step):
            oracle.report("P1", f"{what} before the turn that asks for it was durable")
        if hand.process.is_changed and step.run_id in self.frozen:
            oracle.report("P10", f"{what}, whose code does not match the run's journal")
        if step.idempotency_key != f"{oracle.origin(step.run_id)}/{step.key}":
            oracle.report("keys", f"{what} under the key of another life: {step.idempotency_key!r}")
        record = self.record(step.run_id)
        held = hand.session.runs.held.get(step.run_id)
        if held is not None and held.epoch <= hand.process.refused.get(step.run_id, -1):
            oracle.report("P2", f"{what} although its turn had been refused")
        if held is None or record.owner != hand.worker_id or record.epoch != held.epoch:
            if held is None or not is_letting_go(held, journal):
                self._begins_without_holding(hand, step, record, what)
            return
        self._begins_holding(hand, step, journal, record.epoch, what)

    def _follows_from_start(self, hand: Hand, journal: Journal, step: StepInfo) -> bool:
        if journal.has_started:
            return False
        known = self._first_asks.get((step.run_id, hand.process.code))
        if known is None:
            record = self.record(step.run_id)
            workflow = hand.process.workflows[record.workflow, record.version]
            known = self._replays.first_asks(record, journal.entries, workflow)
            self._first_asks[step.run_id, hand.process.code] = known
        return step.key in known

    def _begins_without_holding(self, hand: Hand, step: StepInfo, record: RunRecord, what: str) -> None:
        # Nobody can notice a stall between the check of the lease and the beginning of the step.
        if hand.process.went_on_at == hand.process.loop.microseconds or self.has_store_jumped:
            return
        if not self._was_forced(step.run_id):
            self._oracle.report("P2", f"{what}, which does not hold the run any more (its owner is {record.owner})")

    def _was_forced(self, run_id: str) -> bool:
        rows = self.journal(run_id).entries[-2:]
        return len(rows) == 2 and isinstance(rows[0], Claimed) and isinstance(rows[1], Ended)

    def _begins_holding(self, hand: Hand, step: StepInfo, journal: Journal, epoch: int, what: str) -> None:
        oracle = self._oracle
        result = journal.result(step.key)
        if result is not None:
            oracle.report("P3", f"{what} although its result is recorded: {result.kind}")
        if journal.has_started and not journal.asked(step.key):
            oracle.report("P3", f"{what} although the try of the run that asked for it is over")
        failed = journal.retrying(step.key)
        expected = 1 if failed is None else failed.attempt + 1
        if step.attempt != expected:
            oracle.report("P3", f"{what} as attempt {step.attempt}, but it is attempt {expected} by the journal")
        # The delay counts as over even if the clock was set back since, while the lease held the step up, or just
        # before it began.
        clock = hand.process.clock
        if failed is not None and clock.latest_since(journal.seen_at(failed)) < failed.retry_at:
            oracle.report("P3", f"{what} as attempt {step.attempt} before its delay was over")
        mark = (step.run_id, step.key, step.attempt, epoch)
        if mark in oracle.begun:
            oracle.report("P3", f"{what} twice as attempt {step.attempt}, under the same claim")
        oracle.begun.add(mark)

    def kills(self, step: StepInfo) -> None:
        """P8: a step is about to kill its process."""
        oracle = self._oracle
        count = oracle.kills[step.run_id] = oracle.kills.get(step.run_id, 0) + 1
        most = self.workflows[step.workflow].max_crashes
        if count > most and not self.has_store_jumped:
            oracle.report(
                "P8", f"{oracle.label(step.run_id)} takes its worker down for the {count}th time; {most} are allowed"
            )

    def enters(self, step: StepInfo, context: Context) -> None:
        """A state of a machine finds what was committed: one more state each time, and nothing of attempts that
        failed."""
        journal, oracle = self.journal(step.run_id), self._oracle
        if step.run_id in oracle.gone or self.has_store_jumped:
            return
        done = [entry for row in journal.rows for entry in decode_entries(row.data) if isinstance(entry, StepCompleted)]
        expected = len({entry.key for entry in done})
        if oracle.runs[step.run_id].rows:
            # The run began with the journal of another one, whose beginning a checkpoint may have removed.
            expected = states_before(step.key)
        if context.get("count", 0) != expected or context.input is None:
            oracle.report(
                "machines",
                f"state {step.key!r} of {oracle.label(step.run_id)} finds {dict(context)} after {expected} states",
            )

    def told(self, sender: Sender, method: str, asked: Any, answer: Any) -> None:
        """The store has answered a request, whoever hears of it."""
        oracle = self._oracle
        if method in ("commit_turns", "commit_loan"):
            for turn, verdict in zip(asked, answer, strict=True):
                self._turn(sender, turn, verdict)
        elif method == "claim_runs":
            for run in answer:
                self._claim(sender, asked, run)
            self._left(sender)
        elif method == "next_due":
            self._left(sender)
        elif method == "start_runs":
            self._starts(asked, answer)
        elif method == "mark_matched":
            there = [run for run in asked if self._is_there(run.id) and self._is_news(run.id)]
            self._starts(there, [StartedRun(run.id, RunStatus.PENDING, created=True) for run in there])
        elif method == "cancel_run":
            run_id, is_forced = asked
            if answer is not None:
                # The last run of the chain, if the named one has continued.
                run_id = answer.id
            if answer is not None and not answer.status.is_final:
                oracle.cancelled.add(run_id)
            oracle.note(f"{sender.name} cancels {oracle.label(run_id)}{' by force' if is_forced else ''}")
            self.look(run_id)
        elif method == "write_rows":
            for write, verdict in zip(asked, answer, strict=True):
                change = write.change
                said = f"{change.status}{', released' if change.release else ''}{', blocked' if change.blocked else ''}"
                if (change.blocked or "").startswith("JournalDiverged"):
                    self._diverges(sender, write.run_id)
                oracle.note(f"{sender.name} {oracle.label(write.run_id)} row: {said}{'' if verdict else ', refused'}")
                if verdict and isinstance(sender, Process) and sender.is_changed and write.run_id in self.frozen:
                    self._gives_up(sender, write)
        elif method == "read_inbox":
            self.mail.told(answer)
        elif method in ("send_signal", "publish_event", "resume_hook"):
            self._message(sender, method, asked, answer)
        elif method in ("append_items", "set_value", "pause_runs", "delete_runs", "sweep"):
            self._managed(sender, method, asked, answer)
        elif method == "reap_workers" and answer:
            oracle.note(f"{sender.name} reaps {', '.join(answer)}")

    def _left(self, sender: Sender) -> None:
        if isinstance(sender, Process) and sender.is_passing:
            self.looks[sender.hands[-1].worker_id] = self.free(self._now())

    def _managed(self, sender: Sender, method: str, asked: Any, answer: Any) -> None:
        if method == "append_items":
            self.streams.sent(asked)
        elif method == "set_value":
            self.streams.valued(*asked)
        elif method == "pause_runs":
            self.managing.paused(sender.name, answer, asked[1])
        else:
            gone = answer if method == "delete_runs" else answer.run_ids
            for chain in self.managing.removed(sender.name, gone, None if method == "delete_runs" else self._now()):
                self.streams.gone(chain)

    def _message(self, sender: Sender, method: str, asked: Any, answer: Sent) -> None:
        to, *what, payload = asked
        said = {"send_signal": "signals", "publish_event": "publishes", "resume_hook": "resumes a hook with"}[method]
        name = f" {self._oracle.label(to)} {what[0]}" if method == "send_signal" else ""
        self._oracle.note(f"{sender.name} {said}{name} {payload!r}: {answer}")
        if method == "resume_hook":
            self.mail.resumed(to, payload, answer)
        elif answer is Sent.SENT and method == "send_signal":
            self.mail.signalled(to, what[0], payload)
        elif answer is Sent.SENT:
            self.mail.published(to, payload, self._now())

    def _diverges(self, sender: Sender, run_id: str) -> None:
        """P10: only code that was changed without a new version may diverge."""
        is_expected = isinstance(sender, Process) and sender.is_changed and run_id in self.frozen
        is_expected = is_expected or run_id in self._oracle.astray
        if not is_expected:
            self._oracle.report("P10", f"{self._oracle.label(run_id)} is said to have diverged from code that fits it")

    def _gives_up(self, process: Process, write: RowWrite) -> None:
        """P10: a run that changed code does not match must be blocked, with a report."""
        change = write.change
        # Its body was not rebuilt: the process stops, has another suspect before it, or the run waits to be tried
        # again.
        is_unseen = process.is_stopping or change.crashes or self.journal(write.run_id).history.retrying is not None
        if not is_unseen and not (change.blocked or "").startswith("JournalDiverged"):
            self._oracle.report(
                "P10",
                f"{self._oracle.label(write.run_id)} does not match the code of {process.name} and is {change.status}, "
                f"blocked by {change.blocked}",
            )

    def _turn(self, sender: Sender, turn: Turn, verdict: bool) -> None:
        oracle = self._oracle
        before = len(self.journal(turn.run_id).rows)
        self.look(turn.run_id)
        journal = self.journal(turn.run_id)
        is_new = len(journal.rows) > before
        kinds = " ".join(entry.kind for entry in journal.entries[-12:]) if is_new else "again"
        oracle.note(
            f"{sender.name} {oracle.label(turn.run_id)} turn {turn.seq} epoch {turn.epoch}: "
            f"{kinds if verdict else 'refused'}"
        )
        if is_new:
            self.mail.accepted(turn)
            if isinstance(sender, Process) and not self.has_clock_jumped:
                self.managing.turned(sender, turn)
            if turn.out is not None:
                self._gives_out(turn, turn.out)
            is_astray = isinstance(sender, Process) and sender.is_changed and turn.run_id in self.frozen
            if is_astray and not isinstance(journal.entries[-1], Ended):
                oracle.report("P10", f"{oracle.label(turn.run_id)} went on with code that does not match its journal")
            oracle.kills.pop(turn.run_id, None)
            epoch = self.record(turn.run_id).epoch
            if epoch != turn.epoch:
                oracle.report(
                    "P2",
                    f"turn {turn.seq} of {oracle.label(turn.run_id)} was accepted from epoch {turn.epoch}, "
                    f"but the run is at epoch {epoch}",
                )
        is_blocked = turn.change is not None and turn.change.blocked is not None
        if is_new and isinstance(sender, Process):
            oracle.code.setdefault(turn.run_id, []).append(sender.code)
        if is_new and isinstance(sender, Process) and not is_blocked:
            # Of a blocked body's turn only the results that came for it are durable, not what it saw of them.
            self._is_durable(sender, turn)

    def _gives_out(self, turn: Turn, out: Out) -> None:
        """Note the runs that a turn has begun and the messages it has sent."""
        oracle = self._oracle
        old = oracle.runs[turn.run_id]
        if out.successor is not None:
            kin = {"parent_id": old.parent_id, "parent_key": old.parent_key, "on_parent_end": old.on_parent_end}
            oracle.runs[out.successor.id] = msgspec.structs.replace(out.successor, **kin)
            oracle.note(f"{oracle.label(turn.run_id)} goes on in {oracle.label(out.successor.id)}")
            self.look(out.successor.id)
            if turn.run_id in oracle.paused:
                oracle.paused.add(out.successor.id)
        for child in out.children:
            if child.id not in oracle.runs and self._do(partial(self._store.get_run, child.id)) is not None:
                oracle.runs[child.id] = child
                oracle.note(f"{oracle.label(turn.run_id)} begins its child {oracle.label(child.id)}")
                self.look(child.id)
                if turn.run_id in oracle.ended:
                    self.mail.ended(old, oracle.ended[turn.run_id])
            elif child.id not in oracle.runs and child.key is not None:
                self.mail.joins(child.id, self._do(partial(self._store.find_run, child.workflow, child.key)))
        oracle.called_off.update(out.cancels)
        for signal in out.signals:
            self.mail.signalled(signal.run_id, signal.name, signal.payload)
        for event in out.events:
            self.mail.published(event.name, event.payload, self._now())
        self.streams.gave_out(turn.run_id, out)

    def _is_durable(self, process: Process, turn: Turn) -> None:
        """Everything that the body of this turn has seen is durable now."""
        for hand in process.hands:
            runs = getattr(hand.session, "runs", None)
            held = None if runs is None else runs.held.get(turn.run_id)
            if held is not None and held.epoch == turn.epoch and turn.run_id in hand.traces:
                self._oracle.durable(hand.traces[turn.run_id])

    def _claim(self, sender: Sender, worker_id: str, run: ClaimedRun) -> None:
        before, earlier = self._owners.get(run.id, (None, ""))
        self._owners[run.id] = sender, worker_id
        # Not if it claimed the run before it lost a lease: it could not hand back what it held then.
        is_left = isinstance(before, Process) and before.left_well and before.hands[-1].worker_id == earlier
        if run.is_takeover and is_left:
            name = self._oracle.label(run.id)
            self._oracle.report("P8", f"{name} is taken over from {earlier}, which had stopped in good order")
        self.keys.claimed(run)
        how = f"takes {self._oracle.label(run.id)} over" if run.is_takeover else f"claims {self._oracle.label(run.id)}"
        self._oracle.note(f"{worker_id} {how}, epoch {run.epoch}, seq {run.next_seq}, crashes {run.crashes}")
        self.look(run.id)
        self.mail.claimed(run, self.journal(run.id))
        self.managing.claimed(sender.name, run)

    def _starts(self, asked: Sequence[NewRun], answer: Sequence[StartedRun]) -> None:
        for run, started in zip(asked, answer, strict=True):
            if started.created:
                if run.id in self._oracle.runs:
                    self._oracle.report("events", f"{self._oracle.label(run.id)} was begun again under its own name")
                self._oracle.began_at[run.id] = self._now()
                self._oracle.runs[run.id] = run
                by = " by an event" if "@event-" in run.id else ""
                self._oracle.note(f"{self._oracle.label(run.id)} of {run.workflow} is started{by}, key {run.key}")
                self.look(run.id)
                self.mail.began(run.id)
                self.forks.began(run)
            for other in [one for one in self._oracle.runs.values() if run.key is not None and one.key == run.key]:
                # The run that held the key may have been cancelled in favour of this one.
                self.look(other.id)

    def heard(self, sender: Sender, method: str, asked: Any, answer: asyncio.Future[Any]) -> None:
        """The sender has got its answer."""
        if not isinstance(sender, Process) or answer.cancelled():
            return
        if answer.exception() is not None:
            return
        if method == "read_inbox":
            self.managing.heard(sender, answer.result())
        elif method == "claim_runs":
            self.claims[asked] = self.claims.get(asked, 0) + len(answer.result())
        elif method in ("commit_turns", "commit_loan"):
            for turn, verdict in zip(asked, answer.result(), strict=True):
                if not verdict:
                    sender.refused[turn.run_id] = max(turn.epoch, sender.refused.get(turn.run_id, 0))
