"""`make test` looks at a red test once more, by itself: tests.again."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import again

ONCE_RED = """
from pathlib import Path

def test_once_red():
    been = Path("been")
    was_there = been.exists()
    been.touch()
    assert was_there
"""
RED = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_red(number):
    assert False
"""


@pytest.fixture
def run_twice(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    """Run these tests as a whole, and the red ones again; the exit code and what was printed the second time."""

    def run_twice(*files: str) -> tuple[int, str]:
        for number, text in enumerate(files):
            (tmp_path / f"test_{number}.py").write_text(text)
        subprocess.run([sys.executable, "-m", "pytest", "-q", "--rootdir", "."], cwd=tmp_path, check=False)
        capfd.readouterr()
        return again.main(tmp_path), capfd.readouterr().out

    return run_twice


def test_a_test_that_passes_by_itself_is_named_and_does_not_count(run_twice):
    code, said = run_twice(ONCE_RED)
    assert code == 0
    assert "UNSTABLE, mend it (red at first, passes by itself): test_0.py::test_once_red" in said


def test_a_test_that_is_red_twice_counts(run_twice):
    code, said = run_twice(ONCE_RED, RED.format(count=1))
    assert code == 1
    assert "RED TWICE: test_1.py::test_red[0]" in said


def test_many_red_tests_are_no_chance_and_not_run_again(run_twice):
    code, said = run_twice(ONCE_RED, RED.format(count=again.FEW))
    assert code == 1
    assert said == ""


def test_a_run_that_broke_before_any_test_was_red_counts(tmp_path):
    assert again.main(tmp_path) == 1
