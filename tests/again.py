"""Runs the tests again that the last run left red, each in a process of its own: `python -m tests.again`.

Many tests here race real processes and servers on machines that have others to serve. A test that loses such a race
once in ten thousand runs, and passes by itself, should be mended, but says nothing about the change at hand. So it is
named, and does not count. A test that is red twice counts, and so do more than a few: that is no chance.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FEW = 3


def red_in(folder: Path) -> list[str]:
    """The tests that failed in the last run in this folder."""
    try:
        return list(json.loads((folder / ".pytest_cache/v/cache/lastfailed").read_text()))
    except FileNotFoundError:
        return []


def still_red(folder: Path, tests: list[str]) -> list[str]:
    """Those of the tests that fail again."""
    # With the same seed: what depends on that is red again.
    command = (sys.executable, "-m", "pytest", "-q", "--randomly-seed=last")
    return [test for test in tests if subprocess.run([*command, test], cwd=folder, check=False).returncode]


def main(folder: Path) -> int:
    """Print what was found; the exit code."""
    tests = red_in(folder)
    if not 0 < len(tests) <= FEW:
        return 1
    print(f"\n{len(tests)} red; once more, each by itself:", flush=True)
    red = still_red(folder, tests)
    for test in tests:
        print(f"{'RED TWICE' if test in red else 'UNSTABLE, mend it (red at first, passes by itself)'}: {test}")
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
