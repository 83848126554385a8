"""dev resolves its settings anew at each restart, and outlives a mistake in them."""

from __future__ import annotations

import signal
import urllib.request
from pathlib import Path

import pytest

from holdfast.cli import main
from tests.cli.stage import Stage
from tests.processes import PATIENCE, Process
from tests.servers.account import free_port


@pytest.fixture
def project(stage: Stage) -> Path:
    """What init writes, in a folder of its own."""
    folder = stage.folder / "shop"
    assert main(["init", str(folder)]) == 0
    return folder


def settle(project: Path, name: str, port: int, more: str = "") -> None:
    (project / "holdfast.toml").write_text(f'url = "sqlite:///{name}.db"\nlisten = {port}\n{more}')


def begun(stage: Stage, project: Path) -> Process:
    process = stage.start("dev", cwd=project)
    stage.ready(process)
    return process


def is_answered(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=PATIENCE) as answer:
        return bool(answer.status == 200)


def test_changed_settings_are_those_that_dev_goes_on_with(stage: Stage, project: Path):
    first, second = free_port(), free_port()
    settle(project, "one", first)
    process = begun(stage, project)
    settle(project, "two", second)
    stage.until(lambda: f"REST on http://127.0.0.1:{second}/v1" in process.output, "it listens elsewhere")
    assert is_answered(second)
    assert (project / "two.db").exists()


def test_a_folder_that_the_changed_settings_name_is_watched(stage: Stage, project: Path):
    settle(project, "one", free_port())
    process = begun(stage, project)
    more = stage.folder / "more"
    more.mkdir()
    module = "from holdfast import workflow\n\n@workflow\nasync def {name}() -> None: ...\n"
    (more / "refunds.py").write_text(module.format(name="refund"))
    settle(project, "one", free_port(), 'workflows = ["workflows", "../more/"]\n')
    stage.until(lambda: "ready for" in process.output and "refund" in process.output, "it has both folders")
    (more / "refunds.py").write_text(module.format(name="give_back"))
    stage.until(lambda: "give_back" in process.output, "it has the changed workflow")


def test_dev_waits_while_there_is_a_mistake_in_the_settings(stage: Stage, project: Path):
    settle(project, "one", free_port())
    process = begun(stage, project)
    (project / "holdfast.toml").write_text("listen = \n")
    stage.until(lambda: "waiting for a change" in process.output, "it reports the mistake")
    assert "holdfast.toml can't be read" in process.output
    settle(project, "one", free_port())
    stage.until(lambda: process.output.count("ready for") == 2, "it was started again")


def test_dev_stops_in_good_order_while_there_is_a_mistake_in_the_settings(stage: Stage, project: Path):
    settle(project, "one", free_port())
    process = begun(stage, project)
    (project / "holdfast.toml").write_text('listen = "nowhere"\n')
    stage.until(lambda: "waiting for a change" in process.output, "it reports the mistake")
    process.send(signal.SIGTERM)
    assert process.wait() == 0
