"""The benchmarks run. What they find is not tested: a machine may be busy."""

import json
import os
import re
import socket
import subprocess
import sys

import pytest

from tests.house.sources import ROOT, SOURCE

pytestmark = pytest.mark.timeout(400)
IN_BOTH_STORES = {"throughput", "observing", "steps", "starts", "replays", "claims", "idle", "fans"}
GROUPS = {
    *((group, store) for group in IN_BOTH_STORES for store in ("SQLite", "Postgres")),
    *(("fleet", "Postgres"), ("replays", None), ("memory", None)),
}
FIGURE = {
    *("group", "store", "name", "value", "unit", "beside", "beside_value", "ratio"),
    *("target", "verdict", "rounds", "ratios"),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    target = tmp_path_factory.mktemp("bench") / "bench.json"
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--json", str(target)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "verdict" in ran.stdout
    return json.loads(target.read_text("utf-8"))


def test_every_measurement_gives_figures_of_one_shape(report):
    assert {(figure["group"], figure["store"]) for figure in report["figures"]} == GROUPS
    assert {frozenset(figure) for figure in report["figures"]} == {frozenset(FIGURE)}
    for figure in report["figures"]:
        assert isinstance(figure["value"], float)
        assert figure["verdict"] in ("met", "missed", None)
        assert (figure["verdict"] is None) == (figure["target"] is None)


def test_the_report_says_what_was_measured_and_when(report):
    assert report["quick"] is True
    assert set(report) == {
        *("at", "holdfast", "python", "sqlite", "postgres", "asyncpg", "cores", "machine", "quick", "figures")
    }
    assert re.match(r"\d+", report["postgres"])


def test_the_report_names_no_host_and_no_path(report):
    text = json.dumps({**report, "figures": [figure["name"] for figure in report["figures"]]})
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", text)
    assert str(ROOT) not in text
