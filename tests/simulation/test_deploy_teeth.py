"""Changes of code under live runs, broken on purpose in one place at a time: some seed has to notice."""

from __future__ import annotations

from holdfast.engine import Execution
from holdfast.model import Patched
from holdfast.worker.admission import Admission
from tests.simulation.noticing import assert_noticed


def test_a_run_past_a_change_that_takes_the_new_branch_is_noticed(monkeypatch):
    monkeypatch.setattr(Execution, "_patch", lambda self, life, change_id: True)
    assert_noticed("P4", "P5", "P10", "versions")


def test_a_run_that_never_takes_the_new_branch_is_noticed(monkeypatch):
    monkeypatch.setattr(Execution, "_patch", lambda self, life, change_id: False)
    assert_noticed("versions")


def test_a_new_branch_that_is_not_recorded_is_noticed(monkeypatch):
    patch = Execution._patch

    def forgetful(self, life, change_id):
        found = patch(self, life, change_id)
        if self._entries and isinstance(self._entries[-1], Patched):
            self._entries.pop()
        return found

    monkeypatch.setattr(Execution, "_patch", forgetful)
    assert_noticed("P4", "P5", "P10", "versions")


def test_a_run_executed_by_another_version_than_its_own_is_noticed(monkeypatch):
    hold = Admission._hold

    def careless(self, claimed):
        held = hold(self, claimed)
        newest = max(version for name, version in self._workflows if name == claimed.workflow)
        held.workflow = self._workflows[claimed.workflow, newest]
        return held

    monkeypatch.setattr(Admission, "_hold", careless)
    assert_noticed("versions")
