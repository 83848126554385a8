"""What every test may use. Hypothesis has no deadline here, and repeats itself exactly where CI is set."""

import os
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") == "true" else "here")


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """The address of a SQLite file that doesn't exist yet."""
    return f"sqlite:///{tmp_path / 'holdfast.db'}"
