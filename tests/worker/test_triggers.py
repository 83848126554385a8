"""Workflows declared for an event: a run begins for each event, once, whichever way workers die in between."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import AsyncClient, RunFilter, Worker, workflow
from holdfast.codec import Codec
from holdfast.worker import SystemClock
from holdfast.worker.events import Matchmaker


@workflow(on_event="paid", deadline="1h", retention="1d")
async def audit(order: str) -> str:
    return f"audited {order}"


class Died(BaseException):
    """An error after which nobody could go on."""


async def published(client: AsyncClient) -> None:
    """A worker has announced the workflow, and an event is there that nobody has looked at."""
    async with Worker(client, workflows=[audit]):
        pass
    await client.publish("paid", "o-1")


async def test_a_worker_that_dies_before_the_event_is_marked_leaves_one_run(database_url, monkeypatch):
    async with AsyncClient(database_url) as client:
        await published(client)
        mark = client.store.mark_matched

        async def die(events: object, waits: object, **options: object) -> None:
            raise Died

        clock = SystemClock()
        # The second worker looks at the event anew, for nobody has said that it was looked at.
        monkeypatch.setattr(client.store, "mark_matched", die)
        with pytest.raises(Died):
            await Matchmaker(client.store, Codec(), clock).look()
        monkeypatch.setattr(client.store, "mark_matched", mark)
        await Matchmaker(client.store, Codec(), clock).look()
        assert await client.count(RunFilter(workflow=audit)) == 1


async def test_a_run_that_was_removed_before_its_event_was_looked_at_again_does_not_begin_again(database_url):
    async with AsyncClient(database_url) as client:
        await published(client)
        seen = await client.store.read_unmatched(10)
        await Worker(client, workflows=[audit]).drive()
        [run] = [run async for run in client.runs(RunFilter(workflow=audit))]
        await client.delete(run.id)

        class Late:
            """A worker that has read of the event before the other one marked it, and goes on only now."""

            def __getattr__(self, name: str) -> Any:
                return getattr(client.store, name)

            async def read_unmatched(self, limit: int, **options: Any) -> Any:
                return seen

        await Matchmaker(Late(), Codec(), SystemClock()).look()
        assert await client.count(RunFilter(workflow=audit)) == 0


@pytest.mark.parametrize("max_payload", [7, 3], ids=["at the limit", "above the worker's own limit"])
async def test_an_event_that_was_accepted_begins_its_run_whatever_the_workers_limit(database_url, max_payload):
    async with AsyncClient(database_url, max_payload=7) as client:
        await published(client)
        await client.publish("paid", "o-222")
        await Worker(database_url, workflows=[audit], codec=Codec(max_payload=max_payload)).drive()
        assert await client.count(RunFilter(workflow=audit)) == 2


async def test_after_a_deploy_was_taken_back_an_event_begins_a_run_that_is_executed(database_url):
    def version(number: str) -> Any:
        @workflow(name="remind", version=number, on_event="late")
        async def remind(order: str) -> str:
            return f"{order} in version {number}"

        return remind

    first, second = version("1"), version("2")
    async with AsyncClient(database_url) as client:
        for deployed in (first, second):
            async with Worker(client, workflows=[deployed]):
                pass
        async with Worker(client, workflows=[first]) as worker:
            await client.publish("late", "o-1")
            await worker.drive()
            [run] = [run async for run in client.runs(RunFilter(workflow="remind"))]
            assert await run.result(timeout=0) == "o-1 in version 1"


async def test_an_event_that_had_to_be_pickled_begins_its_run(database_url):
    @workflow(on_event="measured")
    async def double(value: Any) -> str:
        return str(2 * value)

    async with AsyncClient(database_url, codec=Codec(pickle=True)) as client:
        async with Worker(client, workflows=[double]):
            pass
        await client.publish("measured", 1j)
        await Worker(client, workflows=[double]).drive()
        [run] = [run async for run in client.runs(RunFilter(workflow=double))]
        assert await run.result(timeout=0) == "2j"


async def test_options_that_a_workflow_declares_hold_for_runs_that_events_begin(database_url):
    async with AsyncClient(database_url) as client:
        await published(client)
        await Worker(client, workflows=[audit]).drive()
        [run] = [run async for run in client.runs(RunFilter(workflow=audit))]
        assert await run.result(timeout=0) == "audited o-1"
        assert run.record is not None
        assert run.record.retention == 24 * 3600 * 1_000_000
        assert run.record.deadline_at is not None
