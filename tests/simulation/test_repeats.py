"""The same seed gives the same world: otherwise a seed would not help to find out what broke."""

import os
import subprocess
import sys
from pathlib import Path

import holdfast
from holdfast.testing.simulate import main
from holdfast.testing.simulation import run_seed

SEEDS = (3, 17, 28, 41, 63)
SCRIPT = f"from holdfast.testing.simulation import run_seed; print(*[run_seed(seed).digest for seed in {SEEDS}])"


def test_a_seed_gives_the_same_log_again():
    assert [run_seed(seed).digest for seed in SEEDS] == [run_seed(seed).digest for seed in SEEDS]


def test_another_process_with_other_hashes_gives_the_same_log():
    env = {**os.environ, "PYTHONPATH": str(Path(holdfast.__file__).parents[1]), "PYTHONHASHSEED": "4711"}
    ran = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [run_seed(seed).digest for seed in SEEDS]


def test_different_seeds_are_different_worlds():
    assert len({run_seed(seed).digest for seed in range(10)}) == 10


def test_the_command_runs_the_seeds_it_is_asked_for(capsys):
    assert main(["--seeds", "3", "--first", "5"]) == 0
    assert capsys.readouterr().out.startswith("3 seeds")


def test_the_command_prints_every_event_if_asked(capsys):
    assert main(["--seed", "3", "--verbose"]) == 0
    out = capsys.readouterr().out
    assert "has registered" in out
    assert "1 seeds" in out
