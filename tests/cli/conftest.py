"""Real processes of the command on either store. Each test has a folder and a database of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.stage import Stage


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
