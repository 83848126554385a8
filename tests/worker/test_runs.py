"""Which runs a worker takes, how many at once, and in which order; and which are refused when they are started."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import (
    BadArguments,
    DefinitionError,
    DuplicateWorkflow,
    PayloadTooLarge,
    Retry,
    UnknownWorkflow,
    Worker,
    current_run,
    step,
    workflow,
)
from holdfast.worker import known_workflows
from tests.worker.samples import chain
from tests.worker.stage import PATIENCE, stage, until


async def test_concurrency_bounds_the_runs_with_a_step_in_flight(database_url):
    busy, most, go_on = 0, 0, asyncio.Event()

    @step
    async def work() -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        if busy == 2:
            go_on.set()
        await go_on.wait()
        await asyncio.sleep(0.005)
        busy -= 1

    @workflow
    async def body() -> None:
        await work()

    async with stage(database_url, body, concurrency=2) as on:
        for run in await on.client.start_many(body, [()] * 10):
            await run.result(PATIENCE)
    assert most == 2


async def test_a_run_that_waits_for_a_retry_takes_no_room(database_url):
    attempts: list[int] = []

    @step(retry=Retry(attempts=2, initial="1h", jitter=0))
    async def flaky() -> None:
        attempts.append(1)
        raise ValueError

    @workflow
    async def retrying() -> None:
        await flaky()

    async with stage(database_url, retrying, chain, concurrency=1) as on:
        run = await on.client.start(retrying)
        await until(lambda: attempts)
        assert await (await on.client.start(chain, 2)).result(PATIENCE) == 1
        assert not (await on.record(run)).status.is_final


async def test_two_workers_share_the_work(database_url):
    began, go_on = [], asyncio.Event()

    @step
    async def work() -> None:
        began.append(1)
        await go_on.wait()

    @workflow
    async def body() -> None:
        await work()

    async with (
        stage(database_url) as on,
        on.worker(body, concurrency=1) as one,
        on.worker(body, concurrency=1) as other,
    ):
        runs = await on.client.start_many(body, [(), ()])
        await until(lambda: len(began) == 2)
        assert {(await on.record(run)).owner for run in runs} == {one.id, other.id}
        go_on.set()
        for run in runs:
            await run.result(PATIENCE)


async def test_two_workers_never_execute_a_step_twice(database_url):
    effects: list[str] = []

    @step
    async def mark() -> None:
        effects.append(current_run().id)
        await asyncio.sleep(0)

    @workflow
    async def body() -> None:
        await mark()

    async with stage(database_url) as on, on.worker(body), on.worker(body):
        for run in await on.client.start_many(body, [()] * 100):
            await run.result(PATIENCE)
    assert len(effects) == len(set(effects)) == 100


@pytest.fixture
def marked():
    """A workflow that says when it is its turn."""
    order: list[str] = []

    @step
    async def mark(name: str) -> None:
        order.append(name)

    @workflow
    async def body(name: str) -> None:
        await mark(name)

    return body, order


async def test_a_larger_priority_goes_first(database_url, marked):
    body, order = marked
    async with stage(database_url) as on:
        runs = [await on.client.start(body, str(n), priority=n) for n in (0, 5, 9, 3)]
        async with on.worker(body, concurrency=1):
            for run in runs:
                await run.result(PATIENCE)
    assert order == ["9", "5", "3", "0"]


async def test_within_a_priority_the_oldest_goes_first(database_url, marked):
    body, order = marked
    async with stage(database_url) as on:
        runs = [await on.client.start(body, str(n)) for n in range(5)]
        async with on.worker(body, concurrency=1):
            for run in runs:
                await run.result(PATIENCE)
    assert order == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("priority", [-1, 10, "high"])
async def test_a_priority_out_of_range_is_refused_and_changes_nothing(database_url, priority, marked):
    body, _ = marked
    async with stage(database_url) as on:
        with pytest.raises(DefinitionError, match="priority"):
            await on.client.start(body, "x", priority=priority)
        assert [run async for run in on.client.runs()] == []


async def test_a_delayed_run_begins_when_it_is_due(database_url, marked):
    body, order = marked
    async with stage(database_url, body) as on:
        run = await on.client.start(body, "late", delay="1h")
        other = await on.client.start(body, "early")
        await other.result(PATIENCE)
        assert order == ["early"]
        on.skip("61m")
        await run.result(PATIENCE)
    assert order == ["early", "late"]


async def test_a_worker_leaves_alone_what_it_does_not_know(database_url):
    @workflow
    async def unknown() -> str:
        return "known at last"

    async with stage(database_url, chain) as on:
        run = await on.client.start(unknown)
        await (await on.client.start(chain, 1)).result(PATIENCE)
        assert (await on.record(run)).status == "pending"
        async with on.worker(unknown):
            assert await run.result(PATIENCE) == "known at last"


async def test_a_worker_leaves_other_versions_alone(database_url):
    @workflow(name="order", version="1")
    async def first() -> str:
        return "1"

    @workflow(name="order", version="2")
    async def second() -> str:
        return "2"

    async with stage(database_url) as on:
        run = await on.client.start(first)
        async with on.worker(second):
            assert await (await on.client.start(second)).result(PATIENCE) == "2"
            assert (await on.record(run)).status == "pending"
        async with on.worker(first):
            assert await run.result(PATIENCE) == "1"


async def test_a_worker_serves_only_its_queues(database_url):
    @workflow
    async def body() -> str:
        return "done"

    async with stage(database_url, body, queues=["slow"]) as on:
        run = await on.client.start(body)
        await (await on.client.start(body, queue="slow")).result(PATIENCE)
        assert (await on.record(run)).status == "pending"


async def test_a_body_may_return_its_tags_though_it_has_none(database_url):
    @workflow
    async def body() -> dict[str, str]:
        return current_run().tags

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result(PATIENCE) == {}


async def test_tags_are_seen_in_the_body(database_url):
    @workflow
    async def body() -> str:
        return current_run().tags["customer"]

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body, tags={"customer": "c-1"})).result(PATIENCE) == "c-1"


async def test_a_duplicate_workflow_name_is_refused():
    @workflow(name="order")
    async def one() -> None: ...

    @workflow(name="order")
    async def two() -> None: ...

    with pytest.raises(DuplicateWorkflow, match="order"):
        Worker("sqlite:///:memory:", workflows=[one, two])


async def test_the_same_workflow_twice_is_no_duplicate():
    once = known_workflows([chain], giver="Worker")
    assert known_workflows([chain, chain, chain.options(key="x")], giver="Worker") == once


async def test_wrong_arguments_are_refused_at_start_and_change_nothing(database_url):
    async with stage(database_url) as on:
        with pytest.raises(BadArguments, match="n"):
            await on.client.start(chain, "three")  # type: ignore[arg-type]
        assert [run async for run in on.client.runs()] == []


async def test_too_many_arguments_are_refused_at_start(database_url):
    async with stage(database_url) as on:
        with pytest.raises(BadArguments):
            await on.client.start(chain, 1, 2)  # type: ignore[call-arg]
        assert [run async for run in on.client.runs()] == []


async def test_oversized_arguments_are_refused_at_start_and_change_nothing(database_url):
    @workflow
    async def body(text: str) -> None: ...

    async with stage(database_url, client={"max_payload": 1_000}) as on:
        with pytest.raises(PayloadTooLarge):
            await on.client.start(body, "x" * 2_000)
        assert [run async for run in on.client.runs()] == []


async def test_an_unknown_name_is_refused_at_start(database_url):
    async with stage(database_url) as on:
        with pytest.raises(UnknownWorkflow, match="no_such"):
            await on.client.start("no_such")
