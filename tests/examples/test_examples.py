"""Every example runs as anybody would run it, and shows what its docstring says to look at."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
DOCS = ROOT / "docs"

# A line of its output for each example that can be run as it is, the one that would be missing if its promise were.
SHOWN = {
    "cancel": "both halves of the transfer are done\ncleaning up, with a step\nthe customer called",
    "children": "it broke, in a run of 'pack'",
    "compensation": "undo hotel\nundo payment of 1200\nfailed: no flights to the moon",
    "continue_as_new": "total: 20",
    "deadlines": "tidied up after the deadline\nDeadlineExceeded",
    "drive": "charging 4242\ndone: [False, False]",
    "events": "o-1: looked later, and found 1200 cents",
    "hooks": "too late: this hook was resumed before; it is delivered once",
    "keys": "shipped o-1 and charged 1 time",
    "machines": "machine 'shop' has no state 'fly'; it has: start, charge",
    "map": "333283335000; ['page 1', 'LookupError: no such page', 'page 3']; 8955050",
    "observability": (
        "print the label below workflow.step\nworkflow.step below workflow.run\n"
        "workflow.run below POST /orders\ntraces: 1"
    ),
    "pause_and_resume": "still: waiting | paused\nresumed: 2",
    "rest_api": "reader: completed None None\nreader: POST needs a key with the right 'operate'",
    "retention": "pruned: 5 archived: 5 first entry: started",
    "retry_and_fork": "fork with another result: published: a better text",
    "signals": "paid 1000 cents, for the new chair, no veto",
    "values_and_streams": "dropped: ['once', 'upon']\nread: ['once', 'upon', 'a', 'time']",
    "versions": "old: ['ship', 'bill']\nnew: ['bill', 'ship']",
}
# Tested with the demo, in tests/acceptance.
OTHERS = {"blocking_body", "hello", "parallel", "resources_and_middleware", "retries"}
DEMO = {"demo", "demo_timeline", "demo_workflow"}


def output_of(name: str, folder: Path) -> str:
    """What an example prints, in a folder of its own. Anything on stderr is a failure, but for what workers report.

    Without logging set up, a worker's reports go to stderr. Some examples let runs fail to show what comes of it. On
    a machine that stands still for a second, a worker says that its loop was blocked.
    """
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    told = re.sub(r"this worker's loop has been blocked .*\n(?: .*\n|\n)*", "", ran.stderr)
    rest = [line for line in told.splitlines() if not re.match(r"<run .*> failed ", line)]
    assert (ran.returncode, rest) == (0, []), ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_an_example_shows_what_it_says(name, tmp_path):
    assert SHOWN[name] in output_of(name, tmp_path)


def test_every_example_is_run_by_a_test():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SHOWN) | OTHERS | DEMO


def test_every_example_is_shown_on_a_page():
    pages = "".join(page.read_text("utf-8") for page in [*DOCS.glob("*.md"), ROOT / "README.md"])
    shown = set(re.findall(r"examples/(\w+)\.py", pages))
    assert (set(SHOWN) | OTHERS | {"demo"}) - shown == set()
