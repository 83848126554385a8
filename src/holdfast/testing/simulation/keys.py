"""Keys: one run at a time for a workflow and a key. A run that replaces another one begins when that has ended.

Not every claim is a beginning: a run that is first claimed after its deadline, or after it was called off, is claimed
to be ended, whatever else is under way.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.model import ClaimedRun, RunRecord

from .oracle import Oracle


class Keys:
    """Checks the keys of one world."""

    def __init__(self, oracle: Oracle, record: Callable[[str], RunRecord]) -> None:
        self._oracle = oracle
        self._record = record
        self._called_off: set[str] = set()

    def claimed(self, run: ClaimedRun) -> None:
        if run.epoch == 1 and any(message.kind == "cancel" for message in run.inbox):
            self._called_off.add(run.id)
        if run.key is None or not self._has_begun(run.id):
            return
        for other in self._oracle.runs.values():
            is_rival = other.id != run.id and (other.workflow, other.key) == (run.workflow, run.key)
            if is_rival and other.id not in self._oracle.ended and self._has_begun(other.id):
                names = f"{self._oracle.label(run.id)} and {self._oracle.label(other.id)}"
                self._oracle.report("keys", f"{names} are under way with the same key {run.key!r}")

    def _has_begun(self, run_id: str) -> bool:
        run = self._record(run_id)
        is_late = run.deadline_at is not None and run.started_at is not None and run.started_at >= run.deadline_at
        return run.started_at is not None and not is_late and run_id not in self._called_off
