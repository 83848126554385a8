"""A project's own modules may be named as modules of the standard library: no process of the command takes the one for
the other while it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli import main
from tests.cli.stage import Stage
from tests.processes import Process
from tests.servers.account import free_port


@pytest.fixture(params=["queue", "email"])
def project(request: pytest.FixtureRequest, stage: Stage) -> Path:
    """What init writes, and a module beside it that has the name of one that Python has."""
    folder = stage.folder / "shop"
    assert main(["init", str(folder)]) == 0
    (folder / f"{request.param}.py").write_text("# our own helpers\n")
    return folder


def begun(stage: Stage, project: Path, *arguments: str) -> Process:
    """The command as it is when it was installed: without -P, `python -m` would search the project first itself."""
    process = stage.start(*arguments, "--url", stage.url, cwd=project, flags=["-P"])
    stage.ready(process)
    return process


def test_a_fleet_begins(stage: Stage, project: Path):
    begun(stage, project, "worker", "--processes", "2")


def test_dev_begins(stage: Stage, project: Path):
    begun(stage, project, "dev", "--listen", str(free_port()))
