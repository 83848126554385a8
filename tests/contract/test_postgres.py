"""The store contract on Postgres: directly, and through a PgBouncer that gives each transaction another connection."""

from collections.abc import Callable

import pytest

from holdfast.model import new_id
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
    TestNews,
    TestNextDue,
    TestPauseRuns,
    TestProbes,
    TestProcesses,
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
    "TestNews",
    "TestNextDue",
    "TestPauseRuns",
    "TestProbes",
    "TestProcesses",
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
    "TestTwoStores",
    "TestValues",
    "TestWakeUps",
    "TestWriteRows",
]


@pytest.fixture
def url(postgres: Databases) -> str:
    """An empty database."""
    return postgres.create_database()


@pytest.fixture(scope="module")
def shared(postgres: Databases) -> str:
    """A database that tests share: each keeps to namespaces of its own, which is what they are for."""
    return postgres.create_database()


@pytest.fixture
def make_store(request: pytest.FixtureRequest) -> Callable[..., Store]:
    """Stores on one database; on one of the test's own if it asks for the url."""
    if "url" in request.fixturenames:
        own: str = request.getfixturevalue("url")
        return lambda namespace="default": open_store(own, namespace=namespace)
    shared: str = request.getfixturevalue("shared")
    tenant = new_id()
    return lambda namespace="default": open_store(shared, namespace=f"{tenant} {namespace}")
