"""The store contract on SQLite where more than one store, or more than one process, opens the file."""

from functools import partial
from pathlib import Path

import pytest

from holdfast.store import open_store
from holdfast.testing.contract import (
    TestMessagesInTwoStores,
    TestNamespaces,
    TestNamespacesOfMessages,
    TestProcesses,
    TestTwoStores,
    TestWakeUps,
)

__all__ = [
    "TestMessagesInTwoStores",
    "TestNamespaces",
    "TestNamespacesOfMessages",
    "TestProcesses",
    "TestTwoStores",
    "TestWakeUps",
]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The file's address, for this process and others."""
    return f"sqlite:///{tmp_path}/holdfast.db"


@pytest.fixture
def make_store(url: str):
    """Every store of a test is on the same file."""
    return partial(open_store, url)
