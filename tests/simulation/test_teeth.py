"""The product is broken on purpose, in one place at a time: some seed has to notice, and to name the promise."""

import asyncio

import msgspec

from holdfast.engine import Execution
from holdfast.engine.mail import Mailbox
from holdfast.engine.marks import Matcher
from holdfast.model import RowChange, RunStatus, StepCompleted, history_of
from holdfast.store.sqlite import ends, waits
from holdfast.store.sqlite.transactions import Transaction
from holdfast.testing.simulate import main
from holdfast.worker.admission import Admission
from holdfast.worker.attempts import Attempts
from holdfast.worker.held import Held
from holdfast.worker.upkeep import Upkeep
from holdfast.worker.waits import open_commands
from tests.simulation.noticing import assert_noticed


def test_a_step_begun_before_its_turn_is_durable_is_noticed(monkeypatch):
    commit = Admission.commit

    def hasty(self, held, done, taken):
        for command in done.begin:
            self._begin(held, command)
        done.begin = []
        commit(self, held, done, taken)

    monkeypatch.setattr(Admission, "commit", hasty)
    assert_noticed("P1")


def test_a_refused_turn_taken_for_an_accepted_one_is_noticed(monkeypatch):
    committed = Admission._committed
    monkeypatch.setattr(
        Admission,
        "_committed",
        lambda self, held, turn, verdict: committed(self, held, turn, verdict is False or verdict),
    )
    assert_noticed("P1", "P2", first=190)


def test_a_takeover_without_a_fence_is_noticed(monkeypatch):
    from holdfast.store.sqlite import claims

    monkeypatch.setattr(claims, "_fence", lambda *args: None)
    assert_noticed("P2", within=20)


def test_a_lease_that_never_lapses_by_its_worker_s_clock_is_noticed(monkeypatch):
    from holdfast.worker.lease import Lease

    monkeypatch.setattr(Lease, "holds", lambda self: not self.is_lost)
    assert_noticed("P2", first=136)


def test_a_step_executed_twice_is_noticed(monkeypatch):
    begin = Attempts.begin

    def twice(self, held, command):
        begin(self, held, command)
        return begin(self, held, command)

    monkeypatch.setattr(Attempts, "begin", twice)
    assert_noticed("P3", within=20)


def test_a_recorded_result_that_is_overlooked_is_noticed(monkeypatch):
    def overlook(entries):
        last = max((n for n, entry in enumerate(entries) if isinstance(entry, StepCompleted)), default=-1)
        return history_of(entries[:last] if last > 0 else entries)

    monkeypatch.setattr("holdfast.worker.admission.history_of", overlook)
    assert_noticed("P3")


def test_a_result_kept_for_a_blocked_body_that_it_never_gets_is_noticed(monkeypatch):
    monkeypatch.setattr(Held, "carry", lambda self, history, now: None)
    assert_noticed("P3")


def test_a_retry_count_that_is_lost_in_a_crash_is_noticed(monkeypatch):
    replay = Execution.replay

    def forgetful(self, *args):
        replay(self, *args)
        for command in self.commands.values():
            command.attempt = 1

    monkeypatch.setattr(Execution, "replay", forgetful)
    assert_noticed("P3")


def test_a_retry_that_begins_before_its_time_is_noticed(monkeypatch):
    def hasty(self, held):
        for command in open_commands(held):
            if command.key not in held.attempts and command.key not in held.held_up:
                self._begin(held, command)

    monkeypatch.setattr(Admission, "_begin_open", hasty)
    assert_noticed("P3", within=20)


def test_a_time_that_is_not_the_same_on_replay_is_noticed(monkeypatch):
    looks = iter(range(10**9))
    monkeypatch.setattr(Execution, "now", lambda self: self.time + next(looks))
    assert_noticed("P4")


def test_results_written_in_another_order_than_delivered_are_noticed(monkeypatch):
    from holdfast.worker import turns

    encode = turns.encode_entries

    def swapped(entries):
        at = [n for n, entry in enumerate(entries) if isinstance(entry, StepCompleted)]
        if len(at) > 1:
            entries = list(entries)
            entries[at[0]], entries[at[1]] = entries[at[1]], entries[at[0]]
        return encode(entries)

    monkeypatch.setattr(turns, "encode_entries", swapped)
    assert_noticed("P4", "P5", first=49)


def test_a_timer_that_fires_early_is_noticed(monkeypatch):
    due_timers = Execution.due_timers
    monkeypatch.setattr(Execution, "due_timers", lambda self, now: due_timers(self, now + 500_000))
    assert_noticed("P5")


def test_a_parked_run_that_nobody_wakes_is_noticed(monkeypatch):
    waiting = Admission.waiting

    def forgetful(self, due_at, **options):
        change = waiting(self, due_at, **options)
        return msgspec.structs.replace(change, due_at=None) if change.release else change

    monkeypatch.setattr(Admission, "waiting", forgetful)
    assert_noticed("P6")


def test_runs_of_a_dead_worker_that_nobody_takes_over_are_noticed(monkeypatch):
    monkeypatch.setattr(Upkeep, "run", lambda self: asyncio.sleep(10**6))
    assert_noticed("P6", within=20, first=4)


def test_runs_claimed_by_an_answer_that_was_lost_are_noticed(monkeypatch):
    from holdfast.testing.simulation.network import FaultyStore

    async def nothing(self, worker_id, held, *, now=None):
        return []

    monkeypatch.setattr(FaultyStore, "release_strays", nothing)
    assert_noticed("P6", first=11)


def test_a_worker_that_spins_is_noticed(monkeypatch):
    monkeypatch.setattr(Admission, "wake_at", lambda self, held: 1)
    assert_noticed("P6", within=20)


def test_a_deadline_that_wakes_no_run_is_noticed(monkeypatch):
    wake_at = Admission.wake_at

    def deaf(self, held):
        deadline, held.info.deadline_instant = held.info.deadline_instant, None
        try:
            return wake_at(self, held)
        finally:
            held.info.deadline_instant = deadline

    monkeypatch.setattr(Admission, "wake_at", deaf)
    assert_noticed("P6", first=25)


def test_an_end_that_differs_between_row_and_journal_is_noticed(monkeypatch):
    change_of = Admission._change

    def rosy(self, held, done):
        change = change_of(self, held, done)
        is_failed = change is not None and change.status is RunStatus.FAILED
        return RowChange(status=RunStatus.COMPLETED) if is_failed else change

    monkeypatch.setattr(Admission, "_change", rosy)
    assert_noticed("P7", within=20)


def test_crashes_that_nobody_counts_are_noticed(monkeypatch):
    admit = Admission.admit
    monkeypatch.setattr(
        Admission,
        "admit",
        lambda self, claimed: admit(self, msgspec.structs.replace(claimed, crashes=0)),
    )
    assert_noticed("P8", first=15)


def test_a_takeover_that_counts_too_many_crashes_is_noticed(monkeypatch):
    admit = Admission.admit
    monkeypatch.setattr(
        Admission,
        "admit",
        lambda self, claimed: admit(self, msgspec.structs.replace(claimed, crashes=3 * claimed.crashes)),
    )
    assert_noticed("P8", first=4)


def test_a_step_that_answers_a_body_being_put_away_is_noticed(monkeypatch):
    ask_step = Execution.ask_step

    def obliging(self, step, args, kwargs):
        if not self.is_dead:
            return ask_step(self, step, args, kwargs)
        answer = self.loop.create_future()
        answer.set_result(0)
        return answer

    monkeypatch.setattr(Execution, "ask_step", obliging)
    monkeypatch.setattr(Execution, "new_ticket", lambda self: self.next_number())
    assert_noticed("P9")


def test_code_that_goes_on_although_it_does_not_match_its_journal_is_noticed(monkeypatch):
    def lenient(self, key, digest):
        self._cursor += 1

    monkeypatch.setattr(Execution, "_match", lenient)
    assert_noticed("P10")


def test_a_replacement_that_does_not_wait_for_the_run_before_it_is_noticed(monkeypatch):
    from holdfast.store.sqlite import starts

    monkeypatch.setattr(starts, "_replace", lambda tx, old, new_id, at: None)
    assert_noticed("keys", first=84)


def test_a_signal_that_is_lost_when_a_run_goes_on_in_another_is_noticed(monkeypatch):
    run = Transaction.run
    monkeypatch.setattr(Transaction, "run", lambda self, name, *args: name == "move_messages" or run(self, name, *args))
    assert_noticed("messages", within=120, first=22)


def test_a_signal_taken_twice_is_noticed(monkeypatch):
    run = Transaction.run
    monkeypatch.setattr(Transaction, "run", lambda self, name, *args: name == "drop_messages" or run(self, name, *args))
    assert_noticed("messages", within=60, first=22)


def test_signals_taken_in_another_order_than_sent_are_noticed(monkeypatch):
    next_mail = Execution.next_mail

    def last_first(self):
        if self._life is not None and self._life.mailbox:
            self._life.mailbox = Mailbox(Matcher(self._codec), reversed(list(self._life.mailbox)))
        return next_mail(self)

    monkeypatch.setattr(Execution, "next_mail", last_first)
    assert_noticed("messages", within=120, first=113)


def test_a_message_id_that_is_forgotten_is_noticed(monkeypatch):
    """A hook is closed by its first payload whatever ids there are; a signal is not."""
    from holdfast.testing.simulation.mail import Mail

    signalled, known = Mail.signalled, set()

    def once(self, run_id, name, payload):
        # What the client sent once is sent once, whatever the store says.
        if (id(self), payload) not in known:
            known.add((id(self), payload))
            signalled(self, run_id, name, payload)

    monkeypatch.setattr(Mail, "signalled", once)
    monkeypatch.setattr("holdfast.store.sqlite.messages.is_known", lambda *args: False)
    monkeypatch.setattr("holdfast.store.sqlite.messages.remember", lambda *args: None)
    assert_noticed("messages", within=200, first=8)


def test_a_child_s_end_that_its_parent_is_not_told_is_noticed(monkeypatch):
    monkeypatch.setattr(ends, "insert_messages", lambda tx, rows: None)
    assert_noticed("children", "P6", within=200, first=12)


def test_a_compensation_that_is_skipped_is_noticed(monkeypatch):
    begins = Execution.begins_compensation

    def forgetful(self, would_retry):
        if self._life is not None and self._life.compensations and not self._life.is_compensating:
            self._life.compensations.pop()
        return begins(self, would_retry)

    monkeypatch.setattr(Execution, "begins_compensation", forgetful)
    assert_noticed("compensation", "P5", within=300)


def test_an_event_that_nobody_matches_is_noticed(monkeypatch):
    from holdfast.worker.events import Matchmaker

    async def nothing(self):
        return False

    monkeypatch.setattr(Matchmaker, "look", nothing)
    assert_noticed("P6", within=60)


def test_a_hook_s_payload_that_never_arrives_is_noticed(monkeypatch):
    monkeypatch.setattr(waits, "insert_messages", lambda tx, rows: None)
    assert_noticed("P6", within=120, first=12)


def test_compensations_in_the_order_of_registration_are_noticed(monkeypatch):
    begins = Execution.begins_compensation

    def first_first(self, would_retry):
        if self._life is not None and not self._life.is_compensating:
            self._life.compensations.reverse()
        return begins(self, would_retry)

    monkeypatch.setattr(Execution, "begins_compensation", first_first)
    assert_noticed("compensation", within=300, first=147)


def test_a_child_that_goes_on_after_its_parent_s_end_is_noticed(monkeypatch):
    run = Transaction.run
    monkeypatch.setattr(
        Transaction, "run", lambda self, name, *args: name == "cancel_children" or run(self, name, *args)
    )
    assert_noticed("children", within=400, first=352)


def test_the_command_ends_with_1_when_a_promise_is_broken(monkeypatch, capsys):
    monkeypatch.setattr(Upkeep, "run", lambda self: asyncio.sleep(10**6))
    assert main(["--seeds", "5"]) == 1
    assert "P6 was broken by" in capsys.readouterr().out
