"""Drives, broken on purpose in one place at a time: some seed has to notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdfast.testing.simulation import drives
from holdfast.worker import Driven, Session
from tests.simulation.noticing import assert_noticed


def let_say(monkeypatch: pytest.MonkeyPatch, instead: str, reason: Any) -> None:
    """Let drives report one outcome instead of another."""
    drive = drives.drive

    async def lying(*args: Any) -> Driven:
        driven = await drive(*args)
        return replace(driven, reason=reason) if driven.reason == instead else driven

    monkeypatch.setattr(drives, "drive", lying)


def test_a_drive_that_reports_a_due_run_as_waiting_is_noticed(monkeypatch):
    let_say(monkeypatch, "budget", "waiting")
    assert_noticed("drives", first=5)


def test_a_drive_that_reports_too_early_that_its_budget_is_spent_is_noticed(monkeypatch):
    let_say(monkeypatch, "waiting", "budget")
    assert_noticed("drives")


def test_a_drive_that_reports_a_waiting_run_as_ended_is_noticed(monkeypatch):
    let_say(monkeypatch, "waiting", "ended")
    assert_noticed("drives")


def test_a_drive_that_miscounts_the_runs_it_has_taken_is_noticed(monkeypatch):
    admit = Session._admit

    def twice(self, claimed):
        self.taken += len(claimed)
        admit(self, claimed)

    monkeypatch.setattr(Session, "_admit", twice)
    assert_noticed("drives")


def test_drives_that_do_not_take_over_runs_of_dead_drives_are_noticed(monkeypatch):
    """Where there are no workers, only drives end the leases of the dead."""
    ask = drives.Drive._registered

    async def deaf(self, kind):
        session = await ask(self, kind)

        async def nothing(worker_id, *, now=None):
            return []

        self.store.reap_workers = nothing
        return session

    monkeypatch.setattr(drives.Drive, "_registered", deaf)
    assert_noticed("P6", first=72)


def test_a_drive_that_does_not_look_when_a_timer_has_rung_is_noticed(monkeypatch):
    monkeypatch.setattr(Session, "is_busy", property(lambda self: False))
    assert_noticed("drives", "P6")
