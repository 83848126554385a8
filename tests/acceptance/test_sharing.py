"""Two worker processes on one database: each has as many runs as it may have, and nothing is done twice."""

from __future__ import annotations

from collections import Counter

from tests.acceptance.stage import PATIENCE, Stage, on_every_store
from tests.acceptance.workflows import gated

RUNS = 200


@on_every_store
def test_two_workers_share_two_hundred_runs(stage: Stage):
    workers = [stage.worker(concurrency=RUNS // 2) for _ in range(2)]
    stage.ready(*workers)
    runs = stage.client.start_many(gated, [()] * RUNS)
    # However slow one of them is: nothing ends before all of it is in somebody's hands.
    stage.until(lambda: len(stage.effects("begin", key="until_allowed")) >= RUNS, "every run is at its gate")
    stage.allow("gate")
    assert [run.result(timeout=PATIENCE) for run in runs] == [[10, "gate", 30]] * RUNS
    for what in ("begin", "end"):
        done = Counter(effect.pid for effect in stage.effects(what))
        assert done == {worker.pid: 3 * RUNS // 2 for worker in workers}
    assert stage.wrongs() == []
