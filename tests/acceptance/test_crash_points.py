"""kill -9 before and after each write of one run, one after another: the outcome is always the same."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

from holdfast import Client
from tests.acceptance import effects
from tests.acceptance.stage import PATIENCE, Stage

STEPS = {"work", "flaky", "work:1", "thread_work"}


def test_a_run_ends_the_same_wherever_its_process_is_killed(stage: Stage):
    process = stage.start("-m", "tests.acceptance.crash_points")
    # Dozens of processes, one after another.
    assert process.wait(timeout=4 * PATIENCE) == 0, process.output
    points = [json.loads(line) for line in process.output.splitlines()]
    for told in points:
        check(stage.folder / f"point-{told['point']}", told)
    # Each kind of write was met, and the last time through nothing was in the way.
    died = {str(told["at"]).partition(" ")[2] for told in points}
    assert died >= {"start_runs", "register_worker", "claim_runs", "commit_turns", "remove_worker"}
    assert points[-1]["codes"] == [0]


def check(folder: Path, told: dict[str, object]) -> None:
    """One point: the result, one recorded result for each step, nothing begun twice, little executed twice."""
    assert told["codes"] in ([-signal.SIGKILL, 0], [0]), told
    assert json.loads((folder / "result").read_text()) == [10, 20, 30, 40], told
    with Client(f"sqlite:///{effects.database(folder)}") as client:
        (run,) = client.runs()
        assert run.result(timeout=0) == [10, 20, 30, 40], told
        journal = client.journal(run.id)
    assert Counter(entry.key for entry in journal if entry.kind == "step_completed") == dict.fromkeys(STEPS, 1), told
    found = effects.read(folder)
    assert [effect for effect in found if effect.what.startswith("begun")] == [], told
    # One kill: what was in flight executed twice at most, and every attempt belongs to a step that was asked for.
    begun = Counter((effect.key, effect.attempt) for effect in found if effect.what == "begin")
    assert max(begun.values()) <= 2, told
    assert {key for key, _ in begun} == STEPS, told
