"""Forks, broken on purpose in one place at a time: some seed has to notice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from holdfast.client import forking
from holdfast.model import Blocked, Entry, Reseeded, StepAsked, StepCompleted, decode_entries, encode_entries
from holdfast.store.sqlite import starts
from tests.simulation.noticing import assert_noticed

Break = Callable[[list[Entry], list[Entry]], list[Entry]]


def begin_with(monkeypatch: pytest.MonkeyPatch, change: Break) -> None:
    """Let forks begin with what comes of their own entries and of those of the run they stem from."""
    fork_of = forking.fork_of

    def broken(record, rows, **given):
        new = fork_of(record, rows, **given)
        source = [entry for row in rows for entry in decode_entries(row.data)]
        return structs.replace(new, rows=tuple(encode_entries(change(decode_entries(row), source)) for row in new.rows))

    monkeypatch.setattr(forking, "fork_of", broken)


def test_a_fork_that_executes_again_what_was_done_before_its_cut_is_noticed(monkeypatch):
    def without_kept(entries, source):
        at = next((n for n, entry in enumerate(entries) if isinstance(entry, Blocked)), None)
        if at is None:
            return entries
        kept = [entry for entry in entries[at + 1 :] if not isinstance(entry, StepCompleted)]
        return [*entries[:at], Blocked(entries[at].at, len(kept)), *kept]

    begin_with(monkeypatch, without_kept)
    assert_noticed("forks")


def test_a_fork_that_keeps_what_was_done_after_its_cut_is_noticed(monkeypatch):
    def with_more(entries, source):
        results = [entry for entry in source if isinstance(entry, StepCompleted) and entry not in entries]
        return [*entries, Blocked(0, len(results)), *results] if results else entries

    begin_with(monkeypatch, with_more)
    assert_noticed("forks")


def test_a_fork_that_is_cut_too_early_is_noticed(monkeypatch):
    def without_last(entries, source):
        at = next(n for n, entry in enumerate(entries) if isinstance(entry, Reseeded))
        before = entries[:at]
        while before and isinstance(before[-1], StepAsked):
            before.pop()
        return [*before[:-1], *entries[at:]]

    begin_with(monkeypatch, without_last)
    assert_noticed("forks")


def test_a_fork_that_forgets_its_edited_result_is_noticed(monkeypatch):
    fork_of = forking.fork_of
    monkeypatch.setattr(forking, "fork_of", lambda *args, **given: fork_of(*args, **{**given, "result": None}))
    assert_noticed("forks")


def test_a_fork_that_forgets_its_other_input_is_noticed(monkeypatch):
    fork_of = forking.fork_of
    monkeypatch.setattr(forking, "fork_of", lambda *args, **given: fork_of(*args, **{**given, "input": None}))
    assert_noticed("forks")


def test_a_fork_that_goes_by_the_keys_of_the_run_it_stems_from_is_noticed(monkeypatch):
    fork_of = forking.fork_of
    monkeypatch.setattr(
        forking,
        "fork_of",
        lambda record, *args, **given: structs.replace(fork_of(record, *args, **given), origin_id=record.origin_id),
    )
    assert_noticed("keys")


def test_a_fork_that_touches_the_run_it_stems_from_is_noticed(monkeypatch):
    start_runs = starts.start_runs

    def touching(tx, runs, now):
        for run in runs:
            if run.forked_from is not None and run.chain_id is None:
                tx.connection.execute("UPDATE runs SET due_at = 7 WHERE id = ?", (run.forked_from,))
        return start_runs(tx, runs, now)

    monkeypatch.setattr(starts, "start_runs", touching)
    assert_noticed("forks")
