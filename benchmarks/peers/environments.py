"""Throw-away environments: an engine from its registry, in a folder that is deleted afterwards.

An engine that can't be installed here is not left out silently: it is `Absent`, with the reason.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
_PATIENCE = 600


class Absent(Exception):
    """An engine can't be measured here. The message says why, and names no host and no path."""


@dataclass(frozen=True, slots=True)
class Environment:
    """An engine that is ready, and its command, to which address, runs, runs at once and pool size are added."""

    version: str
    command: tuple[str, ...]
    folder: Path


@dataclass(frozen=True, slots=True)
class Contestant:
    """An engine to measure, set up in the way that its own documentation calls fastest.

    All its `pools` (sizes of its connection pool) are tried, and the fastest counts; its default comes first. Holdfast
    has no such choice.
    """

    name: str
    install: Callable[[Path], Environment]
    setup: str
    pools: tuple[int, ...] = (0,)


def ours(folder: Path) -> Environment:
    """Holdfast itself: nothing to install."""
    folder.mkdir()
    return Environment(version("holdfast"), (sys.executable, str(PROGRAMS / "holdfast_program.py")), folder)


def from_pip(package: str, program: str, extra: str = "") -> Callable[[Path], Environment]:
    """A Python package in a virtual environment."""

    def install(folder: Path) -> Environment:
        python = folder / "bin" / "python"
        _do([sys.executable, "-m", "venv", str(folder)], "no virtual environment could be made")
        _do(
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{package}{extra}"],
            f"pip could not install {package}",
        )
        asked = f"from importlib.metadata import version; print(version({package!r}))"
        found = _do([str(python), "-c", asked], f"{package} is not there after its installation")
        return Environment(found.strip(), (str(python), str(PROGRAMS / program)), folder)

    return install


def from_npm(package: str, program: str, *others: str) -> Callable[[Path], Environment]:
    """A package for Node. The program is copied next to it, where Node looks for packages."""

    def install(folder: Path) -> Environment:
        node, npm = shutil.which("node"), shutil.which("npm")
        if node is None or npm is None:
            raise Absent("Node.js and npm are not installed")
        folder.mkdir()
        _do(
            [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), package, *others],
            f"npm could not install {package}",
        )
        copied = Path(shutil.copy(PROGRAMS / program, folder))
        described = json.loads((folder / "node_modules" / package / "package.json").read_text("utf-8"))
        runtime = _do([node, "--version"], "Node.js does not run").strip()
        return Environment(f"{described['version']} on Node {runtime}", (node, str(copied)), folder)

    return install


CONTESTANTS = (
    Contestant(
        "Holdfast",
        ours,
        "one process, a worker in it; starts in one call, every result waited for; the collector as in docs/deploy.md",
    ),
    Contestant(
        "DBOS Transact",
        from_pip("dbos", "dbos_program.py"),
        "workflows called directly, not through a queue; coroutines; no tracing, no log",
        (20, 50, 100),
    ),
    Contestant(
        "pyworkflow-engine",
        from_pip("pyworkflow-engine", "pyworkflow_program.py", "[postgres]"),
        "the local runtime, so no broker in between; durable runs in Postgres; no log",
        (10, 20, 50),
    ),
    Contestant(
        "OpenWorkflow",
        from_npm("openworkflow", "openworkflow.mjs", "postgres"),
        "one worker with as many slots as runs at once",
        (10, 20, 50),
    ),
)


def _do(command: Sequence[str], failure: str) -> str:
    """What the command prints. Its own error output only goes to the terminal: it may name hosts and paths."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise Absent(f"{failure} within {_PATIENCE} s") from None
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        raise Absent(failure)
    return done.stdout
