"""The demo and the examples do what they say, as anybody would run them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.acceptance.stage import Stage
from tests.processes import ROOT, Process

EXAMPLES = ROOT / "examples"


def run(stage: Stage, name: str) -> str:
    """The output of an example, in the test's own folder."""
    return ended(stage.start(str(EXAMPLES / f"{name}.py"), cwd=stage.data))


def ended(process: Process) -> str:
    assert process.wait() == 0, process.output
    return process.output


def test_the_demo_kills_a_worker_and_another_one_finishes_the_order(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    in_log = stage.start(str(EXAMPLES / "demo.py"))
    monkeypatch.setenv("FORCE_COLOR", "1")
    on_terminal = stage.start(str(EXAMPLES / "demo.py"))
    for process in (in_log, on_terminal):
        output = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", ended(process))
        assert output.count("\n  ✓ ") == 7, output
        assert re.search(r"kill -9 \d+, with pack in flight", output)
        assert "replays reserve" in output
    assert "\x1b" not in in_log.output
    assert "\x1b" in on_terminal.output


def test_the_hello_example_charges_once_although_it_is_killed(stage: Stage):
    first = stage.start(str(EXAMPLES / "hello.py"), cwd=stage.data)
    stage.until(lambda: "charging" in first.output, "the card is charged")
    run_id = stage.client.get_run("checkout", key="order-1").id
    stage.until(lambda: stage.keys(run_id), "the charge is recorded")
    first.kill()
    assert run(stage, "hello").splitlines() == ["charged 1200 cents to 4242"]


def test_the_hello_example_is_the_one_in_the_readme():
    (shown,) = re.findall(r"^```python\n(import holdfast\n.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)[:1]
    ours = (EXAMPLES / "hello.py").read_text()
    calls = [node for node in ast.walk(ast.parse(shown)) if isinstance(node, ast.Call)]
    assert {ast.unparse(call) for call in calls} <= {
        ast.unparse(node) for node in ast.walk(ast.parse(ours)) if isinstance(node, ast.Call)
    }


def test_the_parallel_example_gathers_races_and_times_out(stage: Stage):
    assert run(stage, "parallel").strip() == "{'best of both': 90, 'first': 120, 'patient': -1}"


def test_the_retries_example_tries_again_and_gives_up(stage: Stage):
    assert run(stage, "retries").splitlines() == [
        "fetch news, attempt 1",
        "fetch news, attempt 2",
        "fetch news, attempt 3",
        "publish, once",
        "shelved <h1>news</h1>, because the press is broken for good",
    ]


def test_the_example_of_a_blocking_body_counts(stage: Stage):
    assert run(stage, "blocking_body").strip() == "1006"


def test_the_example_of_resources_and_middleware_opens_wraps_and_closes(stage: Stage):
    lines = run(stage, "resources_and_middleware").splitlines()
    assert [line.split(" took")[0] for line in lines] == [
        "day: sell",
        "day: sell:1",
        "day: sell:2",
        "sold 3 items",
        "the shop is closed",
    ]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_a_small_example_stays_small(path: Path):
    if not path.stem.startswith("demo"):
        assert len(path.read_text().splitlines()) < 60
