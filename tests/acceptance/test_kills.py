"""kill -9 in a loop, against several worker processes and a client on one SQLite file.

The effects files are the oracle. HOLDFAST_KILL_SECONDS sets how long it goes on, HOLDFAST_KILL_SEED repeats the dice.
"""

from __future__ import annotations

import os
import random
import time
from collections import defaultdict

import pytest

from holdfast import RunFilter, RunStatus
from holdfast.client import Run
from tests.acceptance.effects import Effect
from tests.acceptance.stage import Process, Stage
from tests.acceptance.start_runs import started_log
from tests.acceptance.workflows import MIXED, STEPS, expected

SECONDS = float(os.environ.get("HOLDFAST_KILL_SECONDS", "15"))
WORKERS = 3


@pytest.mark.timeout(SECONDS + 120)
def test_runs_survive_any_number_of_kills(stage: Stage):
    seed = int(os.environ.get("HOLDFAST_KILL_SEED", random.randrange(1_000_000)))
    print(f"HOLDFAST_KILL_SEED={seed}")
    kill_at_random(stage, random.Random(seed))
    started = {int(line) for line in started_log(stage.folder, 0).read_text().split()}
    runs = {run.key: run for run in all_runs(stage)}
    # The last start may have been durable without its answer; none that was answered may be missing.
    assert {f"run-{number}" for number in started} <= runs.keys()
    assert len(runs) <= len(started) + 1
    found = defaultdict(list)
    for effect in stage.effects():
        found[effect.run_id].append(effect)
    assert found.keys() == {run.id for run in runs.values()}
    for run in runs.values():
        check(stage, run, found[run.id])


def kill_at_random(stage: Stage, dice: random.Random) -> None:
    client = start_client(stage)
    workers = [stage.worker() for _ in range(WORKERS)]
    ends = time.monotonic() + SECONDS
    kills = 0
    while time.monotonic() < ends:
        time.sleep(dice.uniform(0.0, 0.6))
        if dice.random() < 0.1:
            client.kill()
            client = start_client(stage)
        else:
            place = dice.randrange(WORKERS)
            workers[place].kill()
            workers[place] = stage.worker()
        kills += 1
    client.kill()
    deadline = time.monotonic() + 90
    while live := [run for run in all_runs(stage) if not run.status.is_final]:
        assert time.monotonic() < deadline, [str(stage.client.explain(run.id)) for run in live]
        time.sleep(0.1)
    again = len(stage.effects("begin")) - len(stage.effects("end")) - len(stage.effects("fail"))
    print(f"{kills} kills, {len(all_runs(stage))} runs, {again} steps executed again")


def start_client(stage: Stage) -> Process:
    return stage.start("-m", "tests.acceptance.start_runs", "0", "0", "0.05")


def all_runs(stage: Stage) -> list[Run[object]]:
    return [run for workflow in MIXED for run in stage.client.runs(RunFilter(workflow=workflow.name))]


def check(stage: Stage, run: Run[object], found: list[Effect]) -> None:
    """The right result; each step's result recorded once, an effect behind it, and none begun after it was recorded."""
    assert run.key is not None
    assert run.status is RunStatus.COMPLETED, f"{run!r}: {stage.client.explain(run.id)}"
    assert run.result() == expected(run.workflow, int(run.key.removeprefix("run-")))
    recorded = stage.journal(run.id, "step_completed")
    assert len({entry.key for entry in recorded}) == len(recorded) == STEPS[run.workflow]
    assert [effect for effect in found if effect.what.startswith("begun")] == []
    tries = {(effect.key, effect.attempt) for effect in found if effect.what == "begin"}
    ended = {(effect.key, effect.attempt) for effect in found if effect.what == "end"}
    assert {(entry.key, entry.attempt) for entry in recorded} <= ended <= tries
