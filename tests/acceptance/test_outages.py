"""A Postgres that goes away: work pauses and goes on, nothing is lost or repeated, and the log says so once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.stage import Stage
from tests.acceptance.workflows import expected, gated, sequence
from tests.processes import PATIENCE, Process
from tests.servers import Postgres

MOST_LINES = 12
"""A few writers and a lease, each with a line when the store goes and one when it is back."""


def fast(server: Postgres) -> None:
    server.stop("fast")


def immediate(server: Postgres) -> None:
    server.stop("immediate")


def killed(server: Postgres) -> None:
    server.kill()


@pytest.mark.parametrize("stop", [fast, immediate, killed])
def test_runs_go_on_when_the_server_is_back_and_nothing_is_repeated(
    tmp_path: Path, server: Postgres, stop: Callable[[Postgres], None]
):
    stage = Stage(tmp_path, server.create_database())
    try:
        # A machine that is slow is nothing to report here.
        workers = [stage.worker(lease="2s", blocked_after="1h") for _ in range(2)]
        stage.ready(*workers)
        run = stage.client.start(gated)
        stage.begun(run.id, "until_allowed")
        others = stage.client.start_many(sequence, [(seed,) for seed in range(40)])
        stage.until(lambda: len(stage.effects("end")) > 5, "they are under way")
        before = [worker.output.count("\n") for worker in workers]
        stop(server)
        stage.allow("gate")
        # A step in flight ends although nobody can write that down; and longer than any lease nobody answers.
        stage.until(lambda: stage.effects("end", key="until_allowed"), "a step ends meanwhile")
        threading.Event().wait(4)
        stage.until(lambda: all(map(has_noticed, workers, before)), "both have noticed")
        server.start()
        assert run.result(timeout=PATIENCE) == [10, "gate", 30]
        assert [one.result(timeout=PATIENCE) for one in others] == [expected("sequence", seed) for seed in range(40)]
        assert all(worker.is_alive for worker in workers)
        for worker, lines in zip(workers, before, strict=True):
            told = lines_since(worker, lines)
            assert len(told) <= MOST_LINES, "\n".join(told)
        check_once(stage, [run.id, *(one.id for one in others)])
    finally:
        stage.close()


def lines_since(worker: Process, before: int) -> list[str]:
    return worker.output.splitlines()[before:]


def has_noticed(worker: Process, before: int) -> bool:
    return any("away" in line or "can't be renewed" in line for line in lines_since(worker, before))


def check_once(stage: Stage, run_ids: list[str]) -> None:
    """One result a step, none begun after it was recorded."""
    assert stage.wrongs() == []
    for run_id in run_ids:
        assert max(Counter(stage.keys(run_id)).values()) == 1
        assert len(stage.journal(run_id, "ended")) == 1
