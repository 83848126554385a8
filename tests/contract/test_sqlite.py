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
    TestNews,
    TestNextDue,
    TestPauseRuns,
    TestProbes,
    TestReadInbox,
    TestReading,
    TestReapWorkers,
    TestRegisterWorker,
    TestReleaseStrays,
    TestRemoveWorker,
    TestRenewLease,
    TestRetriedRuns,
    TestSendSignal,
    TestStartRuns,
    TestStreams,
    TestSubscribe,
    TestSuspects,
    TestSweep,
    TestTracesOfMessages,
    TestTriggers,
    TestTurnsGiveOut,
    TestValues,
    TestWriteRows,
)
from holdfast.testing.contract.stage import new_run

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
    "TestNews",
    "TestNextDue",
    "TestPauseRuns",
    "TestProbes",
    "TestReadInbox",
    "TestReading",
    "TestReapWorkers",
    "TestRegisterWorker",
    "TestReleaseStrays",
    "TestRemoveWorker",
    "TestRenewLease",
    "TestRetriedRuns",
    "TestSendSignal",
    "TestStartRuns",
    "TestStreams",
    "TestSubscribe",
    "TestSuspects",
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


async def test_each_store_in_memory_that_is_opened_is_a_database_of_its_own():
    one, other = open_store("sqlite:///:memory:"), open_store("sqlite:///:memory:")
    await one.open()
    await other.open()
    try:
        await one.start_runs([new_run(id="here")])
        assert (await one.get_run("here") is None, await other.get_run("here")) == (False, None)
    finally:
        await one.close()
        await other.close()
