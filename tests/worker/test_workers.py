"""The arguments of a worker, and which runs it serves."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from typing import Any

import pytest

from holdfast import AsyncClient, Worker, resource, sleep, step, workflow
from holdfast.errors import HoldfastError
from holdfast.model import Instant
from holdfast.store.sqlite import SqliteStore
from holdfast.worker import known_workflows
from tests.worker.samples import add, ready
from tests.worker.stage import PATIENCE, stage, until


def plain() -> None: ...


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"workflows": []}, "at least one workflow"),
        ({"workflows": [plain]}, "decorated with @workflow"),
        ({"workflows": ["ready"]}, "decorated with @workflow"),
        ({"workflows": None}, "workflows=.*is no list"),
        ({"codec": "zstd"}, "codec='zstd'"),
        ({"lease": "10ms"}, "a second or more"),
        ({"lease": "soon"}, "soon"),
        ({"grace": "-1s"}, "-1s"),
        ({"stall": "never"}, "stall"),
        ({"blocked_after": "never"}, "blocked_after"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": "many"}, "concurrency"),
        ({"threads": 0}, "threads"),
        ({"threads": -1}, "threads"),
        ({"queues": []}, "queues"),
        ({"url": "mysql://host/db"}, "mysql"),
        ({"url": 5}, "address of a database"),
        ({"keep_parked": -1}, "keep_parked"),
        ({"keep_parked": "all"}, "keep_parked"),
        ({"middleware": ["print"]}, "middleware"),
        ({"middleware": print}, "is no list"),
        ({"resources": [plain]}, "decorated with @resource"),
        ({"resources": 5}, "is no list"),
    ],
    ids=lambda one: one if isinstance(one, str) else next(iter(one)),
)
async def test_a_wrong_argument_is_refused_where_it_is_written(given, said):
    with pytest.raises(HoldfastError, match=said):
        Worker(**{"url": "sqlite:///:memory:", "workflows": [ready], **given})


async def test_a_name_that_is_taken_in_another_version_is_no_duplicate():
    @workflow(name="ready", version="2")
    async def newer() -> str:
        return "2"

    known = known_workflows([ready, newer], giver="Worker")
    assert (known["ready", "1"], known["ready", "2"]) == (ready, newer)


async def test_a_worker_has_no_id_before_it_runs(database_url):
    assert Worker(database_url, workflows=[ready]).id is None


async def test_making_a_worker_does_no_io(tmp_path):
    Worker(f"sqlite:///{tmp_path / 'holdfast.db'}", workflows=[ready])
    assert list(tmp_path.iterdir()) == []


async def test_a_body_may_use_a_variable_that_is_bound_only_after_its_worker_has_begun(database_url):
    @workflow
    async def greeted() -> str:
        return f"hello {name}"

    async with stage(database_url) as on, on.worker(greeted):
        name = "Ada"
        assert await (await on.client.start(greeted)).result(PATIENCE) == "hello Ada"


async def test_ids_are_unique_within_a_process(database_url):
    async with stage(database_url) as on, on.worker(ready) as one, on.worker(ready) as two:
        assert one.id != two.id
        assert {record.id for record in await on.store.list_workers()} == {one.id, two.id}


async def test_a_namespace_beside_a_client_of_another_is_refused(database_url):
    async with AsyncClient(database_url, namespace="shop") as client:
        with pytest.raises(HoldfastError, match="has the namespace 'shop'; give one that has the other"):
            Worker(client, workflows=[ready], namespace="other")
        assert Worker(client, workflows=[ready], namespace="shop").id is None


async def test_a_worker_whose_entering_is_cancelled_leaves_nothing_behind(database_url):
    opened: list[str] = []
    entered = asyncio.Event()

    @resource
    async def slow():
        opened.append("open")
        entered.set()
        await asyncio.sleep(0)
        try:
            yield None
        finally:
            opened.append("closed")

    async with stage(database_url) as on:
        entering = asyncio.ensure_future(on.worker(ready, resources=[slow]).__aenter__())
        await entered.wait()
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        assert opened == ["open", "closed"]
        assert await on.store.list_workers() == []


class Registering(SqliteStore):
    """A store that signals when a worker is about to be registered."""

    def __init__(self, path: str) -> None:
        super().__init__(path, f"sqlite:///{path}", "default")
        self.begins = asyncio.Event()

    async def register_worker(self, *args: Any, **given: Any) -> Instant:
        self.begins.set()
        return await super().register_worker(*args, **given)


async def test_a_drive_that_is_cancelled_as_it_registers_leaves_nothing_behind(tmp_path):
    store = Registering(f"{tmp_path}/holdfast.db")
    async with AsyncClient(store) as client:
        driving = asyncio.ensure_future(Worker(client, workflows=[ready]).drive())
        await store.begins.wait()
        driving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await driving
        # Drive once more, so that a write that was under way is done by now.
        await Worker(client, workflows=[ready]).drive()
        assert await client.workers() == []
        assert not [*tmp_path.glob("**/*.lock")]
    await store.close()


async def test_a_worker_takes_a_clients_store_and_codec(database_url):
    async with AsyncClient(database_url) as client, Worker(client, workflows=[ready]):
        assert await (await client.start(ready)).result(PATIENCE) == "ready"


async def test_an_error_in_the_code_beside_a_worker_is_that_codes_own(database_url):
    async with stage(database_url) as on:
        with pytest.raises(LookupError, match="mine"):
            async with on.worker(ready):
                raise LookupError("mine")
        assert await on.store.list_workers() == []


async def test_a_cancel_of_the_code_beside_a_worker_stops_it_in_good_order(database_url):
    begun = asyncio.Event()

    @step
    async def slow() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    async def body() -> None:
        await slow()

    async with stage(database_url) as on:
        run = await on.client.start(body)

        async def beside() -> None:
            async with on.worker(body, grace=0):
                await asyncio.Event().wait()

        task = asyncio.create_task(beside())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        record = await on.record(run)
        assert (record.owner, record.crashes, record.status) == (None, 0, "waiting")


@pytest.fixture
def versions():
    """Two versions of one workflow that sleep and then say which they are."""

    @workflow(name="order", version="1")
    async def first() -> str:
        await sleep("30d")
        return "first"

    @workflow(name="order", version="2")
    async def second() -> str:
        await add(1, 1)
        await sleep("30d")
        return "second"

    return first, second


async def test_two_versions_live_side_by_side_in_one_worker(database_url, versions):
    first, second = versions
    async with stage(database_url) as on:
        async with on.worker(first):
            old = await on.client.start(first)
            await on.until_waiting(old)
        async with on.worker(first, second):
            new = await on.client.start(second)
            await on.until_waiting(new)
            on.skip("31d")
            assert [await old.result(PATIENCE), await new.result(PATIENCE)] == ["first", "second"]


async def test_two_versions_live_side_by_side_in_two_workers(database_url, versions):
    first, second = versions
    async with stage(database_url) as on, on.worker(first), on.worker(second):
        old, new = await on.client.start(first), await on.client.start(second)
        for run in (old, new):
            await on.until_waiting(run)
        on.skip("31d")
        assert [await old.result(PATIENCE), await new.result(PATIENCE)] == ["first", "second"]


async def test_a_run_in_flight_waits_for_a_worker_with_its_own_version(database_url, versions):
    first, second = versions
    async with stage(database_url) as on:
        async with on.worker(first):
            old = await on.client.start(first)
            await on.until_waiting(old)
        on.skip("31d")
        async with on.worker(second):
            new = await on.client.start(second)
            await on.until_waiting(new)
            record = await on.record(old)
            assert (record.status, record.crashes, record.blocked) == ("waiting", 0, None)
        async with on.worker(first):
            assert await old.result(PATIENCE) == "first"


async def test_a_worker_serves_its_workflows_queue_and_the_default_one(database_url):
    @workflow(queue="mail")
    async def post() -> str:
        return "posted"

    async with stage(database_url, post) as on:
        assert await (await on.client.start(post)).result(PATIENCE) == "posted"
        assert await (await on.client.start(post, queue="default")).result(PATIENCE) == "posted"


async def test_a_run_of_another_queue_waits_for_its_worker(database_url):
    async with stage(database_url, ready) as on:
        run = await on.client.start(ready, queue="night")
        await (await on.client.start(ready)).result(PATIENCE)
        assert (await on.record(run)).status == "pending"
        async with on.worker(ready, queues=["night"]):
            assert await run.result(PATIENCE) == "ready"


async def test_a_worker_that_can_not_go_on_says_so_at_once_and_raises_it_at_its_end(database_url, caplog):
    """The code beside the worker may wait for a run for ever: the error must be in the log by then."""
    async with stage(database_url) as on:
        worker = await on.worker(ready).__aenter__()
        with contextlib.closing(sqlite3.connect(database_url.removeprefix("sqlite:///"))) as connection:
            connection.execute("CREATE TRIGGER t BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'no claims'); END")
        await on.client.start(ready)
        await until(lambda: "has stopped" in caplog.text)
        with pytest.raises(sqlite3.IntegrityError, match="no claims"):
            await worker.wait()
    assert "no claims" in caplog.text
