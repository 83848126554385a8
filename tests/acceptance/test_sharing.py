"""Two worker processes on one database: each does a fair part of the work, and none of it twice."""

from __future__ import annotations

from collections import Counter

from tests.acceptance.stage import PATIENCE, Stage, on_every_store
from tests.acceptance.workflows import expected, sequence

RUNS = 200


@on_every_store
def test_two_workers_share_two_hundred_runs(stage: Stage):
    workers = [stage.worker() for _ in range(2)]
    stage.ready(*workers)
    runs = stage.client.start_many(sequence, [(seed,) for seed in range(RUNS)])
    assert [run.result(timeout=PATIENCE) for run in runs] == [expected("sequence", seed) for seed in range(RUNS)]
    done = Counter(effect.pid for effect in stage.effects("end"))
    assert sum(done.values()) == 5 * RUNS
    assert min(done[worker.pid] for worker in workers) > RUNS
    assert stage.wrongs() == []
