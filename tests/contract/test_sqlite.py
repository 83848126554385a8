"""The store contract on SQLite: in a file, in memory, and inline."""

from pathlib import Path

import pytest

from holdfast.store import SqliteStore, Store, open_store
from holdfast.testing.contract import (
    TestCancelRun,
    TestChildren,
    TestClaimRuns,
    TestCommitTurns,
    TestContinuedRuns,
    TestDeleteRuns,
    TestEvents,
    TestHooks,
    TestKeys,
    TestLife,
    TestListRuns,
    TestListVersions,
    TestListWorkers,
    TestListWorkflows,
    TestNextDue,
    TestPauseRuns,
    TestReadInbox,
    TestReading,
    TestReapWorkers,
    TestRegisterWorker,
    TestReleaseStrays,
    TestRemoveWorker,
    TestRenewLease,
    TestSendSignal,
    TestStartRuns,
    TestStreams,
    TestSubscribe,
    TestSweep,
    TestTracesOfMessages,
    TestTriggers,
    TestTurnsGiveOut,
    TestValues,
    TestWriteRows,
)

__all__ = [
    "TestCancelRun",
    "TestChildren",
    "TestClaimRuns",
    "TestCommitTurns",
    "TestContinuedRuns",
    "TestDeleteRuns",
    "TestEvents",
    "TestHooks",
    "TestKeys",
    "TestLife",
    "TestListRuns",
    "TestListVersions",
    "TestListWorkers",
    "TestListWorkflows",
    "TestNextDue",
    "TestPauseRuns",
    "TestReadInbox",
    "TestReading",
    "TestReapWorkers",
    "TestRegisterWorker",
    "TestReleaseStrays",
    "TestRemoveWorker",
    "TestRenewLease",
    "TestSendSignal",
    "TestStartRuns",
    "TestStreams",
    "TestSubscribe",
    "TestSweep",
    "TestTracesOfMessages",
    "TestTriggers",
    "TestTurnsGiveOut",
    "TestValues",
    "TestWriteRows",
]


@pytest.fixture(params=["file", "memory", "inline"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path):
    """One store a test is all that these need."""
    url = "sqlite:///:memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/holdfast.db"

    def make(namespace: str = "default") -> Store:
        if request.param == "inline":
            return SqliteStore(f"{tmp_path}/holdfast.db", url, namespace, inline=True)
        return open_store(url, namespace=namespace)

    return make
