"""The store contract through a PgBouncer in transaction mode: every transaction may get another connection.

All tests share one database, emptied for each: the pooler keeps connections to every database that it has seen.
"""

import asyncio
from collections.abc import Callable, Iterator

import asyncpg
import pytest

from holdfast.model import new_id
from holdfast.store import Store, open_store
from holdfast.store.postgres import watcher
from holdfast.testing import contract
from holdfast.testing.contract import (
    TestCancelRun,
    TestClaimRuns,
    TestCommitTurns,
    TestKeys,
    TestLife,
    TestListRuns,
    TestListVersions,
    TestListWorkers,
    TestListWorkflows,
    TestNamespaces,
    TestNextDue,
    TestProcesses,
    TestReadInbox,
    TestReading,
    TestReapWorkers,
    TestRegisterWorker,
    TestReleaseStrays,
    TestRemoveWorker,
    TestRenewLease,
    TestStartRuns,
    TestTwoStores,
    TestWakeUps,
    TestWriteRows,
)
from holdfast.testing.contract.stage import Stage, on_stage, turn
from tests.servers import Databases, PgBouncer

__all__ = [
    "TestCancelRun",
    "TestClaimRuns",
    "TestCommitTurns",
    "TestKeys",
    "TestLife",
    "TestListRuns",
    "TestListVersions",
    "TestListWorkers",
    "TestListWorkflows",
    "TestNamespaces",
    "TestNextDue",
    "TestProcesses",
    "TestReadInbox",
    "TestReading",
    "TestReapWorkers",
    "TestRegisterWorker",
    "TestReleaseStrays",
    "TestRemoveWorker",
    "TestRenewLease",
    "TestStartRuns",
    "TestSubscribe",
    "TestTwoStores",
    "TestWakeUps",
    "TestWriteRows",
]


@on_stage
class TestSubscribe(contract.TestSubscribe):
    async def test_plain_turns_notify_nobody(self, stage: Stage) -> None:
        """Here nobody can be told of what others do, so subscribers are told to look: plain turns change nothing."""
        run = await stage.held()
        told: list[int] = []
        with pytest.MonkeyPatch.context() as monkeypatch:
            # The pauses between two looks grow without end: however long this takes, there are few of them.
            monkeypatch.setattr(watcher, "_LATEST", 3600)
            unsubscribe = stage.store.subscribe(lambda: told.append(1))
            for number in range(200):
                assert await stage.commit(turn(run, after=number)) == [True]
                await asyncio.sleep(0)
            unsubscribe()
        assert len(told) <= 20


@pytest.fixture(scope="module")
def database(postgres: Databases) -> str:
    """The one database behind the pooler, without the pooler."""
    return postgres.create_database()


@pytest.fixture(scope="module")
def pooler(postgres: Databases) -> Iterator[PgBouncer]:
    """Fewer connections than the tests' stores ask for, so that they really share them."""
    with PgBouncer(postgres.url, pool_size=6) as running:
        yield running


@pytest.fixture
def url(database: str, pooler: PgBouncer) -> str:
    """The database through the pooler, emptied."""
    asyncio.run(_emptied(database))
    return f"{pooler.url_for(database)}?pooler=transaction"


@pytest.fixture
def make_store(request: pytest.FixtureRequest, database: str, pooler: PgBouncer) -> Callable[..., Store]:
    """Stores on one database, each test in namespaces of its own; on an empty one if the test asks for the url."""
    if "url" in request.fixturenames:
        own: str = request.getfixturevalue("url")
        return lambda namespace="default": open_store(own, namespace=namespace)
    tenant = new_id()
    shared = f"{pooler.url_for(database)}?pooler=transaction"
    return lambda namespace="default": open_store(shared, namespace=f"{tenant} {namespace}")


async def _emptied(database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("DROP SCHEMA IF EXISTS holdfast CASCADE")
    finally:
        await connection.close()
