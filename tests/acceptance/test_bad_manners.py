"""Steps that kill, bodies that block, steps that ignore their timeout: others are unharmed, and someone says so."""

from __future__ import annotations

from datetime import datetime

import pytest

from holdfast import RunCrashed, RunFailed
from tests.acceptance.stage import Stage
from tests.acceptance.workflows import deadly, errand, nap, overdue, rude
from tests.processes import PATIENCE


def test_a_step_that_kills_its_process_is_stopped_and_other_runs_are_unharmed(stage: Stage):
    guilty = stage.client.start(deadly)
    innocent = [stage.client.start(errand, 0.2), stage.client.start(nap, 0.3), stage.client.start(errand, 0)]
    runs = [guilty, *innocent]
    worker = stage.worker()

    def is_over() -> bool:
        nonlocal worker
        if not worker.is_alive:
            worker = stage.worker()
        return all(run.refresh().status.is_final for run in runs)

    stage.until(is_over, "every run has ended")
    with pytest.raises(RunFailed, match="its max_crashes is 2") as failed:
        guilty.result(timeout=0)
    assert isinstance(failed.value.__cause__, RunCrashed)
    assert [run.result(timeout=0) for run in innocent] == [[10, 20, 30], [10, 20], [10, 20, 30]]
    assert len(stage.effects("begin", run_id=guilty.id)) == 2
    assert stage.wrongs() == []
    # Whoever is alive now has seen it end, and works.
    assert worker.is_alive
    assert stage.client.start(errand, 0).result(timeout=PATIENCE) == [10, 20, 30]


def test_a_body_that_blocks_is_reported_with_its_stack_and_keeps_its_lease(stage: Stage):
    workers = [stage.worker(lease="15s", blocked_after="0.3s") for _ in range(2)]
    stage.ready(*workers)
    run = stage.client.start(rude)
    report = f"the body of <run {run.id} of rude version 1> has blocked this worker's loop"
    (holder,) = stage.until(lambda: [one for one in workers if report in one.output], "somebody says so")

    def renewed_at() -> datetime:
        (record,) = [record for record in stage.client.workers() if record.pid == holder.pid]
        return record.renewed_at

    # Renewals don't depend on the body being polite.
    before = renewed_at()
    stage.until(lambda: renewed_at() > before, "the lease is renewed while the body blocks")
    stage.allow("rude")
    assert run.result(timeout=PATIENCE) == 10
    assert [effect.pid for effect in stage.effects("end", run_id=run.id)] == [holder.pid]
    assert holder.output.count('until_told("rude")') == 1
    assert stage.journal(run.id, "claimed") == []


def test_a_step_that_ignores_its_timeout_is_abandoned_and_its_late_result_is_not_recorded(stage: Stage):
    worker = stage.worker()
    run = stage.client.start(overdue)
    stage.begun(run.id, "until_allowed")
    stage.allow("late")
    stage.until(lambda: len(stage.effects("end", run_id=run.id, key="deaf")) == 2, "the late one has returned")
    stage.allow("gate")
    assert run.result(timeout=PATIENCE) == ["in time", "gate"]
    assert "went on after its timeout and was abandoned" in worker.output
    (again,) = stage.journal(run.id, "step_retrying")
    assert "did not end within its timeout of 5s" in str(again.error)
    assert [(entry.attempt, entry.value) for entry in stage.journal(run.id, "step_completed")] == [
        (2, "in time"),
        (1, "gate"),
    ]
