"""The store contract as tests, for every store: ours and yours.

A store's test module imports the classes and defines the fixture `make_store`: a function that takes
`namespace="default"` and returns a store that is not open yet. All stores of one test must be on one database.

    from holdfast.testing.contract import TestClaimRuns, TestCommitTurns, ...

    @pytest.fixture
    def make_store(tmp_path):
        return lambda namespace="default": MyStore(tmp_path / "db", namespace=namespace)

TestTwoStores, TestMessagesInTwoStores, TestWakeUps, TestNamespaces and TestNamespacesOfMessages need a database that
several stores can open at a time. TestProcesses needs one that several processes can open, and a fixture `url` with
which `open_store` opens it in each of them.
"""

from .chains import TestContinuedRuns
from .children import TestChildren
from .claims import TestClaimRuns, TestNextDue, TestReadInbox
from .events import TestEvents
from .hooks import TestHooks
from .life import TestLife, TestSubscribe
from .managing import TestDeleteRuns, TestPauseRuns, TestSweep
from .messages import TestSendSignal, TestTurnsGiveOut
from .news import TestNews
from .probes import TestProbes
from .processes import TestProcesses
from .races import TestMessagesInTwoStores, TestNamespacesOfMessages
from .retries import TestRetriedRuns
from .runs import TestCancelRun, TestListRuns, TestReading
from .shared import TestNamespaces, TestTwoStores, TestWakeUps
from .starts import TestKeys, TestStartRuns
from .suspects import TestSuspects
from .traces import TestTracesOfMessages
from .triggers import TestTriggers
from .turns import TestCommitTurns, TestWriteRows
from .values import TestStreams, TestValues
from .workers import (
    TestListVersions,
    TestListWorkers,
    TestListWorkflows,
    TestReapWorkers,
    TestRegisterWorker,
    TestReleaseStrays,
    TestRemoveWorker,
    TestRenewLease,
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
