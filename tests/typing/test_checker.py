"""What a type checker must accept and what it must refuse.

`accept/*.py` has to be clean under `mypy --strict`; `assert_type` there pins what is inferred. In `refuse/*.py` a line
that ends in `# refused: some words` must get an error that holds those words, and no other line may get one.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ERROR = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)$", re.MULTILINE)
REFUSED = re.compile(r"# refused: (.+?)\s*$")

Place = tuple[str, int]


@pytest.fixture(scope="module")
def errors(tmp_path_factory) -> dict[Place, list[str]]:
    """What mypy says, by file and line. Mistakes inside the package itself are left to `make check`."""
    files = sorted(str(path.relative_to(ROOT)) for kind in ("accept", "refuse") for path in (HERE / kind).glob("*.py"))
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"),
            *("--namespace-packages", "--explicit-package-bases", f"--cache-dir={tmp_path_factory.mktemp('mypy')}"),
            *("--no-pretty", "--no-color-output", "--no-error-summary", "--hide-error-context"),
            *files,
        ],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    found: dict[Place, list[str]] = {}
    for error in ERROR.finditer(ran.stdout):
        found.setdefault((error["file"], int(error["line"])), []).append(error["text"])
    return found


def expected() -> dict[Place, str]:
    """The words that the marked lines ask for."""
    marks = {}
    for path in sorted((HERE / "refuse").glob("*.py")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if mark := REFUSED.search(line):
                marks[str(path.relative_to(ROOT)), number] = mark[1]
    return marks


def test_the_checker_accepts_what_is_right(errors):
    assert {place: texts for place, texts in errors.items() if "/accept/" in place[0]} == {}


def test_the_checker_refuses_what_is_wrong(errors):
    missed = {place: words for place, words in expected().items() if not any(words in t for t in errors.get(place, []))}
    assert missed == {}, f"mypy said: { {place: errors.get(place, 'nothing') for place in missed} }"


def test_the_checker_refuses_nothing_else(errors):
    assert {place: texts for place, texts in errors.items() if "/refuse/" in place[0] and place not in expected()} == {}
