"""Real processes, real files, real signals. Each test has a folder of its own.

What holds on every store is marked `on_every_store`. What stops a Postgres has one of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.stage import Stage
from tests.servers import Postgres


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """Which store: a SQLite file unless the test asks for others."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture
def stage(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A place to start processes on one database; all of them are gone when the test has ended."""
    stage = Stage(tmp_path, request.getfixturevalue("postgres").create_database() if kind == "postgres" else None)
    try:
        yield stage
    finally:
        stage.close()


@pytest.fixture
def server() -> Iterator[Postgres]:
    """A Postgres that the test may stop, restart and kill."""
    with Postgres() as server:
        yield server
