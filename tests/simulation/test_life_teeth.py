"""Runs' whole life, broken on purpose in one place at a time: streams, pauses, removals, events, machines, maps."""

from __future__ import annotations

import secrets

from msgspec import structs

from holdfast.client import starting
from holdfast.define import StepInfo, chunks, machines, maps
from holdfast.store.sqlite import events, outs, retention, values
from holdfast.store.sqlite.events import mark_matched
from holdfast.store.sqlite.loans import SqliteLoan
from holdfast.store.sqlite.starts import start_runs
from holdfast.store.sqlite.transactions import Transaction
from holdfast.worker.arrivals import Arrivals
from holdfast.worker.events import Matchmaker
from holdfast.worker.outbox import Outbox
from tests.simulation.noticing import assert_noticed


def leave_out(monkeypatch, *blocks):
    """Never execute these blocks of SQL."""
    run = Transaction.run
    monkeypatch.setattr(Transaction, "run", lambda self, name, *args: 0 if name in blocks else run(self, name, *args))


def test_an_execution_that_does_not_mark_what_it_replaces_is_noticed(monkeypatch):
    rows = Transaction.rows

    def unmarked(self, name, given):
        rows(self, name, [(*row[:10], False, row[11]) for row in given] if name == "append_items" else given)

    monkeypatch.setattr(Transaction, "rows", unmarked)
    assert_noticed("streams")


def test_offsets_with_a_gap_are_noticed(monkeypatch):
    last = values._last_place
    monkeypatch.setattr(values, "_last_place", lambda tx, chain_id, stream: 2 * last(tx, chain_id, stream))
    assert_noticed("streams")


def test_a_result_recorded_before_what_its_step_has_sent_is_noticed(monkeypatch):
    async def at_once(self):
        pass

    monkeypatch.setattr(Outbox, "flush", at_once)
    monkeypatch.setattr(Outbox, "_send_some", lambda self: _never(self))
    assert_noticed("streams", "P6")


async def _never(outbox):
    outbox._items.clear()


def test_a_value_that_is_not_kept_is_noticed(monkeypatch):
    monkeypatch.setattr(outs, "set_values", lambda tx, values, at: None)
    assert_noticed("streams", first=67)


def test_a_worker_that_goes_on_with_a_paused_run_is_noticed(monkeypatch):
    monkeypatch.setattr(Arrivals, "_pause_or_not", lambda self, held, is_paused: None)
    assert_noticed("pause", "P6", first=20)


def test_a_run_that_can_t_be_resumed_is_noticed(monkeypatch):
    pause = retention.pause_runs
    monkeypatch.setattr(
        retention,
        "pause_runs",
        lambda tx, run_ids, paused, now: pause(tx, run_ids, True, now) if paused else [],
    )
    assert_noticed("P6")


def test_a_journal_that_outlives_its_run_is_noticed(monkeypatch):
    leave_out(monkeypatch, "delete_journals")
    assert_noticed("retention", within=20)


def test_rows_that_a_removed_chain_leaves_behind_are_noticed(monkeypatch):
    leave_out(monkeypatch, "delete_values", "delete_items", "delete_taken")
    assert_noticed("retention", within=60)


def test_a_run_that_is_swept_before_its_time_is_noticed(monkeypatch):
    sweep = retention.sweep
    day = 24 * 3600 * 1_000_000
    monkeypatch.setattr(
        retention,
        "sweep",
        lambda tx, limit, events_before, now: sweep(tx, limit, events_before, (now or tx.now(None)) + 40 * day),
    )
    assert_noticed("retention", first=54)


def test_an_event_that_begins_two_runs_is_noticed(monkeypatch):
    run_of = Matchmaker._run_of

    def anew(self, trigger, event):
        return structs.replace(run_of(self, trigger, event), id=f"{trigger.workflow}@event-{secrets.token_hex(8)}")

    monkeypatch.setattr(Matchmaker, "_run_of", anew)
    monkeypatch.setattr(events, "mark_matched", begin_whoever_was_first)
    assert_noticed("events")


def test_a_run_that_begins_again_after_it_was_removed_is_noticed(monkeypatch):
    monkeypatch.setattr(events, "mark_matched", begin_whoever_was_first)
    assert_noticed("events", first=1555)


def begin_whoever_was_first(tx, events, waits, runs, now):
    """As in the product, but also for events that were marked before."""
    mark_matched(tx, events, waits, (), now)
    start_runs(tx, runs, now)


def test_an_event_that_begins_no_run_is_noticed(monkeypatch):
    monkeypatch.setattr(events, "list_triggers", lambda tx, event, now: [])
    assert_noticed("events")


def test_a_machine_whose_journal_only_grows_is_noticed(monkeypatch):
    leave_out(monkeypatch, "truncate_journal")
    assert_noticed("machines", first=26)


def test_a_write_of_a_failed_state_is_noticed(monkeypatch):
    kept = {}

    class Leaking(machines.Context):
        def __init__(self, input, state, pad):
            super().__init__(input, state, kept.setdefault(id(input), pad))

    monkeypatch.setattr(machines, "Context", Leaking)
    assert_noticed("machines", first=26)


def test_a_successor_that_goes_by_the_keys_of_the_run_before_it_is_noticed(monkeypatch):
    monkeypatch.setattr(StepInfo, "idempotency_key", property(lambda self: f"{self.run.chain_id}/{self.key}"))
    assert_noticed("keys", first=22)


def test_a_retry_that_does_not_go_by_the_keys_of_the_run_that_failed_is_noticed(monkeypatch):
    retry = starting.retry_of
    monkeypatch.setattr(
        starting, "retry_of", lambda *args, **given: structs.replace(retry(*args, **given), origin_id=given["id"])
    )
    assert_noticed("keys", first=5)


def test_items_that_go_by_the_key_of_their_chunk_are_noticed(monkeypatch):
    monkeypatch.setattr(chunks._Item, "idempotency_key", property(lambda self: self.whole.idempotency_key))
    assert_noticed("keys", first=192)


def test_results_of_a_map_in_another_order_are_noticed(monkeypatch):
    told = maps._map

    async def backwards(*args):
        return list(reversed(await told(*args)))

    monkeypatch.setattr(maps, "_map", backwards)
    assert_noticed("maps", first=184)


def test_a_result_without_its_transaction_is_noticed(monkeypatch):
    commit = SqliteLoan._commit

    def forgetful(self, turn, now):
        # What the function wrote is gone; the turn is not.
        self._tx.connection.execute("DELETE FROM booked WHERE run = ?", (turn.run_id,))
        return commit(self, turn, now)

    monkeypatch.setattr(SqliteLoan, "_commit", forgetful)
    assert_noticed("P3", first=16)
