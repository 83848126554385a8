"""Many processes on one SQLite file: nobody is told that it is locked, everybody hears of the others, and when the file
can't be had for a while work waits and goes on."""

from __future__ import annotations

import contextlib
import resource
import sqlite3
import threading

import pytest

from holdfast import RunFilter, RunStatus
from tests.acceptance.effects import database
from tests.acceptance.stage import Stage
from tests.acceptance.workflows import MIXED, STEPS, errand, expected, gated, sequence
from tests.processes import PATIENCE

RUNS = 40


def test_many_workers_and_clients_share_a_file_and_never_see_it_locked(stage: Stage):
    workers = [stage.worker() for _ in range(4)]
    clients = [
        stage.start("-m", "tests.acceptance.start_runs", str(first), str(first + RUNS), "0", name=f"client-{first}")
        for first in (0, 1000)
    ]
    for client in clients:
        assert client.wait() == 0, client.output
    runs = [run for one in MIXED for run in stage.client.runs(RunFilter(workflow=one.name))]
    assert len(runs) == 2 * RUNS
    for run in runs:
        assert run.result(timeout=PATIENCE) == expected(run.workflow, int(str(run.key).removeprefix("run-")))
    # Nobody died, so nothing was executed twice and nothing was taken over.
    assert len(stage.effects("begin", key="work")) == len(stage.effects("end", key="work"))
    assert len(stage.effects("end")) == sum(STEPS[run.workflow] for run in runs)
    assert all(stage.journal(run.id, "claimed") == [] for run in runs[:20])
    assert all(worker.is_alive for worker in workers)
    assert "locked" not in stage.outputs()
    assert "Traceback" not in stage.outputs()


def test_processes_wake_each_other_without_waiting_for_a_poll(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("holdfast.client.watch.POLL", 3600.0)
    stage.ready(stage.worker())
    for _ in range(20):
        assert stage.client.start(errand, 0).result(timeout=PATIENCE) == [10, 20, 30]


def test_a_file_that_somebody_has_locked_makes_work_wait_and_loses_nothing(stage: Stage):
    workers = [stage.worker(lease="1s") for _ in range(2)]
    stage.ready(*workers)
    runs = [stage.client.start(gated), *stage.client.start_many(sequence, [(seed,) for seed in range(3)])]
    stage.begun(runs[0].id, "until_allowed")
    with contextlib.closing(sqlite3.connect(database(stage.folder), isolation_level=None, timeout=PATIENCE)) as other:
        other.execute("BEGIN EXCLUSIVE")
        stage.allow("gate")
        stage.until(lambda: stage.effects("end", key="until_allowed"), "a step ends meanwhile")
        before = [run.refresh().status for run in runs]
        # Longer than any lease.
        threading.Event().wait(2.5)
        assert [run.refresh().status for run in runs] == before
        assert not runs[0].status.is_final
        other.execute("ROLLBACK")
    assert runs[0].result(timeout=PATIENCE) == [10, "gate", 30]
    assert [run.result(timeout=PATIENCE) for run in runs[1:]] == [expected("sequence", seed) for seed in range(3)]
    assert stage.wrongs() == []
    assert all(worker.is_alive for worker in workers)


def test_a_file_that_is_away_for_a_while_makes_work_wait_and_loses_nothing(stage: Stage):
    workers = [stage.worker(lease="2s") for _ in range(2)]
    stage.ready(*workers)
    run = stage.client.start(gated)
    stage.begun(run.id, "until_allowed")
    away = stage.folder / "away"
    stage.data.rename(away)
    stage.allow("gate")
    stage.until(lambda: any("away" in worker.output for worker in workers), "a worker has noticed")
    threading.Event().wait(1)
    away.rename(stage.data)
    assert run.result(timeout=PATIENCE) == [10, "gate", 30]
    assert run.refresh().status is RunStatus.COMPLETED
    assert stage.keys(run.id) == ["work", "until_allowed", "work:1"]
    assert stage.wrongs() == []
    assert all(worker.is_alive for worker in workers)
    assert stage.client.start(errand, 0).result(timeout=PATIENCE) == [10, 20, 30]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits another process")
def test_a_full_disk_makes_work_wait_and_loses_nothing(stage: Stage):
    worker = stage.worker(lease="1h")
    stage.ready(worker)
    run = stage.client.start(gated)
    stage.begun(run.id, "until_allowed")
    # To the worker the log of the database can't grow any more. Its effects file is smaller, and can.
    log = database(stage.folder).with_name("holdfast.db-wal")
    _, most = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (log.stat().st_size, resource.RLIM_INFINITY))
    stage.allow("gate")
    stage.until(lambda: "away" in worker.output, "the worker has noticed")
    assert stage.keys(run.id) == ["work"]
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (most, most))
    assert run.result(timeout=PATIENCE) == [10, "gate", 30]
    assert worker.is_alive
    assert stage.wrongs() == []
    assert len(stage.effects("begin", run_id=run.id)) == 3
