"""Commands in this process and as real ones, on either store. Each test has a folder and a database of its own."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from holdfast import Client
from holdfast.cli import main
from tests.cli.stage import Stage


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Take away what a command in this process has set up: a handler on the captured stderr, which is closed later."""
    root = logging.getLogger()
    before, level = set(root.handlers), root.level
    yield
    for handler in set(root.handlers) - before:
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stage]:
    """A place to start workers on SQLite, or on the store that the test names as its parameter."""
    if getattr(request, "param", "sqlite") == "postgres":
        url = request.getfixturevalue("postgres").create_database()
    else:
        url = f"sqlite:///{tmp_path / 'holdfast.db'}"
    stage = Stage(tmp_path, url)
    try:
        yield stage
    finally:
        stage.close()


@pytest.fixture
def client(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of the database that the environment names, so that commands find it, too."""
    monkeypatch.setenv("HOLDFAST_URL", database_url)
    with Client(database_url) as client:
        yield client


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that goes well; what it printed."""

    def say(*arguments: str) -> str:
        code = main(arguments)
        seen = capsys.readouterr()
        assert (code, seen.err) == (0, "")
        return seen.out

    return say


def _is_from(module: ModuleType, folder: Path) -> bool:
    places = [getattr(module, "__file__", None) or "", *getattr(module, "__path__", [])]
    return any(one.startswith(str(folder)) for one in places)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; what is loaded from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    # All are looked at before any goes: a folder finds its path through the one it is in.
    for name in [name for name in set(sys.modules) - before if _is_from(sys.modules[name], tmp_path)]:
        del sys.modules[name]
