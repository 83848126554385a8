"""Workers that are told to stop, that are stopped without being asked, and that come back."""

from __future__ import annotations

import contextlib
import signal
from datetime import UTC, datetime, timedelta

import pytest

from holdfast import RunEnded
from tests.acceptance.stage import PATIENCE, Stage, on_every_store
from tests.acceptance.workflows import addressed, errand, gated, gated_here, nap, side_by_side, thread_gated

pytestmark = on_every_store
SHORT = "5s"
"""A lease that is waited for. Nobody is kept from renewing a shorter one for its whole length before it is meant to."""


def test_sigterm_lets_the_step_in_flight_end_and_hands_the_rest_back_at_once(stage: Stage):
    first, second = (stage.worker(lease="1h", grace="1h") for _ in range(2))
    stage.ready(first, second)
    # While the second one is stopped, the first one takes everything.
    stage.stop(second)
    busy = stage.client.start(gated)
    stage.begun(busy.id, "until_allowed")
    waiting = stage.client.start(addressed)
    stage.until(lambda: waiting.refresh().status == "waiting", "the other one waits")
    owner = waiting.record.owner
    assert owner is not None
    first.send(signal.SIGTERM)
    second.send(signal.SIGCONT)
    # What only waits has another worker before the one that was told to stop is gone.
    stage.until(lambda: waiting.refresh().record.owner != owner, "it was handed back")
    with contextlib.suppress(RunEnded):  # it has waited long enough by now
        waiting.signal("go")
    assert waiting.result(timeout=PATIENCE) == [10, 20]
    assert [effect.pid for effect in stage.effects("end", run_id=waiting.id)] == [first.pid, second.pid]
    assert first.is_alive
    stage.allow("gate")
    assert first.wait() == 0, first.output
    assert busy.result(timeout=PATIENCE) == [10, "gate", 30]
    assert [effect.pid for effect in stage.effects("end", run_id=busy.id)] == [first.pid, first.pid, second.pid]
    assert len(stage.effects("begin")) == 5
    # Handed back is not taken over: there was no lease to wait for.
    assert stage.journal(busy.id, "claimed") == stage.journal(waiting.id, "claimed") == []


@pytest.mark.parametrize(
    "workflow",
    [
        pytest.param(gated, id="on the loop"),
        pytest.param(thread_gated, id="in a thread"),
    ],
)
def test_a_step_that_outlasts_the_grace_period_is_handed_back_and_executed_again(stage: Stage, workflow):
    first = stage.worker(grace="0.5s")
    stage.ready(first)
    run = stage.client.start(workflow)
    key = stage.until(lambda: [e.key for e in stage.effects("begin") if "until" in e.key], "the gate is reached")[0]
    second = stage.worker()
    stage.ready(second)
    first.send(signal.SIGTERM)
    stage.begun(run.id, key, 2)
    assert first.wait() == 0, first.output
    stage.allow("gate")
    assert run.result(timeout=PATIENCE) == [10, "gate", 30]
    assert [effect.pid for effect in stage.effects("end", run_id=run.id, key=key)] == [second.pid]
    assert stage.journal(run.id, "claimed") == []
    assert stage.keys(run.id) == ["work", key, "work:1"]


def test_a_second_sigterm_leaves_without_grace_and_nothing_is_lost(stage: Stage):
    first = stage.worker()
    stage.ready(first)
    run = stage.client.start(gated)
    stage.begun(run.id, "until_allowed")
    first.send(signal.SIGTERM)
    stage.until(lambda: "another signal ends it" in first.output, "another signal would not be taken for the first")
    first.send(signal.SIGTERM)
    assert first.wait() == 0, first.output
    second = stage.worker()
    stage.ready(second)
    stage.begun(run.id, "until_allowed", 2)
    stage.allow("gate")
    assert run.result(timeout=PATIENCE) == [10, "gate", 30]


def test_a_run_parked_by_a_worker_that_is_gone_is_woken_by_the_next_one(stage: Stage):
    first = stage.worker()
    stage.ready(first)
    run = stage.client.start(nap, 3600)
    stage.until(lambda: run.refresh().record.owner is None and stage.keys(run.id), "the run is parked")
    first.send(signal.SIGTERM)
    assert first.wait() == 0, first.output
    stage.ready(stage.worker())
    run.cancel()
    assert run.wait(timeout=PATIENCE) == "cancelled"
    assert stage.keys(run.id) == ["work"]
    assert stage.journal(run.id, "claimed") == []


def test_a_step_left_open_is_begun_again_although_a_timer_beside_it_has_become_due(stage: Stage):
    first = stage.worker()
    stage.ready(first)
    run = stage.client.start(side_by_side)
    stage.begun(run.id, "until_allowed")
    stage.until(lambda: stage.keys(run.id), "the first step is recorded")
    asked_at = stage.journal(run.id, "step_asked")[-1].at
    first.kill()
    stage.until(lambda: datetime.now(UTC) > asked_at + timedelta(seconds=0.5), "the timer is due")
    stage.worker()
    # Both: the one that the timer led to, and the one that was in flight before.
    stage.begun(run.id, "until_allowed:1")
    stage.begun(run.id, "until_allowed", 2)
    stage.allow("gate")
    stage.until(lambda: stage.keys(run.id) == ["work", "until_allowed"], "the one is recorded")
    stage.allow("second gate")
    assert run.result(timeout=PATIENCE) == [10, "gate", "second gate"]


def test_a_worker_stopped_past_its_lease_loses_its_run_and_its_late_result_is_refused(stage: Stage):
    first = stage.worker(lease=SHORT)
    stage.ready(first)
    run = stage.client.start(gated)
    stage.begun(run.id, "until_allowed")
    stage.stop(first)
    second = stage.worker(lease="1h")
    stage.begun(run.id, "until_allowed", 2)
    stage.allow("gate")
    assert run.result(timeout=PATIENCE) == [10, "gate", 30]
    first.send(signal.SIGCONT)
    stage.until(lambda: "lost its lease" in first.output, "the first worker knows")
    # The step of the one that slept may still end; its result goes nowhere.
    assert stage.keys(run.id) == ["work", "until_allowed", "work:1"]
    assert [entry.note for entry in stage.journal(run.id, "ended")] == ["completed"]
    assert len(stage.journal(run.id, "claimed")) == 1
    # It has begun anew, and is as good as any.
    stage.ready(first)
    second.kill()
    assert stage.client.start(errand, 0).result(timeout=PATIENCE) == [10, 20, 30]
    assert stage.effects("end")[-1].pid == first.pid


def test_a_write_that_was_under_way_when_the_run_was_taken_over_is_refused(stage: Stage):
    first = stage.worker(lease=SHORT, waits_before_commit=True)
    stage.ready(first)
    run = stage.client.start(gated_here)
    stage.begun(run.id, "until_allowed_here")
    # It has checked its lease, and stops with the result in its hands. Only when it has come so far: it may have to
    # renew its lease before, which it could not while nobody may write.
    stage.allow(f"gate-{first.pid}")
    stage.until(lambda: (stage.folder / "committing").exists(), "it is about to commit")
    stage.stop(first)
    second = stage.worker(lease="1h")
    stage.begun(run.id, "until_allowed_here", 2)
    stage.allow("commit")
    first.send(signal.SIGCONT)
    stage.until(lambda: "taken over" in first.output or "lost its lease" in first.output, "the first one drops the run")
    assert stage.keys(run.id) == ["work"]
    stage.allow(f"gate-{second.pid}")
    assert run.result(timeout=PATIENCE) == second.pid
    assert [entry.value for entry in stage.journal(run.id, "step_completed")] == [10, second.pid]


def test_a_worker_that_is_suspended_within_its_lease_goes_on_undisturbed(stage: Stage):
    first, second = stage.worker(lease="1h"), stage.worker(lease="1h")
    stage.ready(first, second)
    run = stage.client.start(gated)
    (begun,) = stage.begun(run.id, "until_allowed")
    holder = first if begun.pid == first.pid else second
    stage.stop(holder)
    # The other one looks for the dead every second: a stopped process is not dead.
    stage.client.start(nap, 2).result(timeout=PATIENCE)
    holder.send(signal.SIGCONT)
    stage.allow("gate")
    assert run.result(timeout=PATIENCE) == [10, "gate", 30]
    assert {effect.pid for effect in stage.effects("begin", run_id=run.id)} == {holder.pid}
    assert stage.journal(run.id, "claimed") == []


def test_a_killed_workers_run_goes_on_at_once_on_the_same_host_however_long_its_lease(stage: Stage):
    first = stage.worker(lease="1h")
    stage.ready(first)
    run = stage.client.start(gated)
    stage.begun(run.id, "until_allowed")
    second = stage.worker(lease="1h")
    stage.ready(second)
    first.kill()
    assert stage.begun(run.id, "until_allowed", 2)[-1].pid == second.pid
    stage.allow("gate")
    assert run.result(timeout=PATIENCE) == [10, "gate", 30]
    assert len(stage.journal(run.id, "claimed")) == 1
    assert stage.keys(run.id) == ["work", "until_allowed", "work:1"]
