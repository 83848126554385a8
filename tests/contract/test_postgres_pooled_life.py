"""The rest of the store contract through a PgBouncer in transaction mode: messages, events, children, chains, values.

What is shared with `test_postgres_pooled.py` are the fixtures: the one database behind the pooler, and stores on it.
"""

from holdfast.testing.contract import (
    TestChildren,
    TestContinuedRuns,
    TestDeleteRuns,
    TestEvents,
    TestHooks,
    TestMessagesInTwoStores,
    TestNamespacesOfMessages,
    TestPauseRuns,
    TestProbes,
    TestRetriedRuns,
    TestSendSignal,
    TestStreams,
    TestSweep,
    TestTriggers,
    TestTurnsGiveOut,
    TestValues,
)
from tests.contract.test_postgres_pooled import database, make_store, pooler, url

__all__ = [
    "TestChildren",
    "TestContinuedRuns",
    "TestDeleteRuns",
    "TestEvents",
    "TestHooks",
    "TestMessagesInTwoStores",
    "TestNamespacesOfMessages",
    "TestPauseRuns",
    "TestProbes",
    "TestRetriedRuns",
    "TestSendSignal",
    "TestStreams",
    "TestSweep",
    "TestTriggers",
    "TestTurnsGiveOut",
    "TestValues",
    "database",
    "make_store",
    "pooler",
    "url",
]
