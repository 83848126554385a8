"""The store contract on Postgres: directly, and through a PgBouncer that gives each transaction another connection."""

from collections.abc import Callable

import pytest

from holdfast.store import Store, open_store
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
    TestMessagesInTwoStores,
    TestNamespaces,
    TestNamespacesOfMessages,
    TestNextDue,
    TestPauseRuns,
    TestProcesses,
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
    TestTriggers,
    TestTurnsGiveOut,
    TestTwoStores,
    TestValues,
    TestWakeUps,
    TestWriteRows,
)
from tests.servers import Databases

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
    "TestMessagesInTwoStores",
    "TestNamespaces",
    "TestNamespacesOfMessages",
    "TestNextDue",
    "TestPauseRuns",
    "TestProcesses",
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
    "TestTriggers",
    "TestTurnsGiveOut",
    "TestTwoStores",
    "TestValues",
    "TestWakeUps",
    "TestWriteRows",
]


@pytest.fixture
def url(postgres: Databases) -> str:
    """An empty database."""
    return postgres.create_database()


@pytest.fixture
def make_store(url: str) -> Callable[..., Store]:
    """Stores on one database."""
    return lambda namespace="default": open_store(url, namespace=namespace)
