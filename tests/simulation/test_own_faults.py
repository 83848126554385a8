"""An error in the simulation itself ends the world and is reported with its seed."""

import pytest

from holdfast.testing.simulation import run_seed
from holdfast.testing.simulation.laws import Laws
from holdfast.testing.simulation.oracle import Oracle
from holdfast.testing.simulation.quiet import Quiet

SEED = 5


@pytest.mark.parametrize(
    ("judge", "method"),
    [(Laws, "told"), (Laws, "begins"), (Oracle, "returned"), (Oracle, "saw"), (Quiet, "wait_for_ends")],
)
def test_an_error_in_the_simulation_ends_its_world_and_is_reported_with_the_seed(monkeypatch, judge, method):
    def fail(*args):
        raise KeyError("unknown to the judge")

    monkeypatch.setattr(judge, method, fail)
    report = run_seed(SEED)
    assert report.law == "simulation"
    assert "unknown to the judge" in report.said
    assert f"--seed {SEED} " in str(report)
