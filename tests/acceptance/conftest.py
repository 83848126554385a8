"""Real processes, real files, real signals. Each test has a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A place to start processes on one database; all of them are gone when the test has ended."""
    stage = Stage(tmp_path)
    try:
        yield stage
    finally:
        stage.close()
