"""map over a workflow: chunk runs between the run that maps and its children, so that its journal stays short."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import holdfast
from holdfast import (
    AsyncClient,
    Done,
    DuplicateWorkflow,
    Failure,
    Machine,
    Retry,
    RunFailed,
    RunStatus,
    Worker,
    blocking,
    step,
    workflow,
)
from holdfast.model import RunFilter
from holdfast.testing import Environment, assert_durable
from tests.life.waiting import kinds, until, until_waiting

executed: dict[int, int] = {}


class SoldOut(Exception):
    """Of this module alone."""


@dataclass
class Parcel:
    number: int


@step
async def double(n: int) -> int:
    executed[n] = 2 * n
    return 2 * n


@step(retry=Retry(attempts=1))
async def picky(n: int) -> int:
    if n == 3:
        raise SoldOut("not three")
    return n


@workflow
async def child(n: int) -> int:
    return await double(n)


@workflow
async def quick(n: int) -> int:
    return 2 * n


@workflow
async def picky_child(n: int) -> int:
    return await picky(n)


@workflow
async def patient(n: int) -> int:
    await holdfast.wait_for_signal("go")
    return n


@workflow
async def mapping(count: int, chunk: int | None = None) -> list[int]:
    return await holdfast.map(child, range(count), concurrency=2, chunk=chunk)


@workflow
async def fanning(count: int) -> list[int]:
    return await holdfast.map(quick, range(count), concurrency=50)


@workflow
async def stopping(count: int, chunk: int) -> list[int]:
    return await holdfast.map(picky_child, range(count), chunk=chunk, concurrency=1)


@workflow
async def waiting(count: int) -> list[int]:
    return await holdfast.map(patient, range(count), chunk=2)


@workflow
async def nested(count: int) -> list[list[int]]:
    return await holdfast.map(mapping, range(1, count + 1), chunk=1)


async def test_the_journal_of_the_run_that_maps_grows_with_the_chunks_on_every_store(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[fanning, quick]):
        run = await client.start(fanning, 1000)
        assert await run.result(timeout=100) == [2 * n for n in range(1000)]
        assert (await kinds(client, run.id)).count("child_asked") == 10
        assert len(await client.journal(run.id)) < 25
        counts = {one.name: one.counts for one in await client.workflows()}
        assert counts == {
            "fanning": {"completed": 1},
            "holdfast.map": {"completed": 10},
            "quick": {"completed": 1000},
        }


async def test_chunk_runs_own_the_children_of_the_items():
    async with Environment([mapping, child]) as env:
        run = await env.client.start(mapping, 4, 2)
        assert await run.result() == [0, 2, 4, 6]
        chunks = [one async for one in env.client.runs(RunFilter(parent=run.id))]
        assert [chunk.record.workflow for chunk in chunks] == ["holdfast.map", "holdfast.map"]
        items = [one async for one in env.client.runs(RunFilter(parent=chunks[0].id))]
        assert [item.record.workflow for item in items] == ["child", "child"]


@pytest.mark.parametrize("chunk", [1, 3, None])
async def test_no_more_items_than_asked_for_are_under_way_at_once(chunk):
    live, most = set(), []

    @step
    async def enter(n: int) -> None:
        live.add(n)
        most.append(len(live))

    @step
    async def leave(n: int) -> None:
        live.remove(n)

    @workflow
    async def counted(n: int) -> int:
        await enter(n)
        await holdfast.sleep(n + 1)
        await leave(n)
        return n

    @workflow
    async def counting() -> list[int]:
        return await holdfast.map(counted, range(20), concurrency=5, chunk=chunk)

    async with Environment([counting, counted]) as env:
        assert await (await env.client.start(counting)).result() == list(range(20))
        assert max(most) == 5


async def test_a_failed_child_raises_its_own_exception_noted_with_its_run_on_every_store(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[stopping, picky_child]):
        run = await client.start(stopping, 6, 2)
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout=60)
        cause = failed.value.__cause__
        assert (type(cause), str(cause)) == (SoldOut, "not three")
        failed_ones = client.runs(RunFilter(workflow=picky_child, status=RunStatus.FAILED))
        [child_id] = [one.id async for one in failed_ones]
        assert f"in the child run {child_id} of 'picky_child'" in cause.__notes__


async def test_the_first_failure_cancels_the_other_items():
    @workflow
    async def one_of_many() -> list[int]:
        return await holdfast.map(either, range(5), concurrency=5, chunk=3)

    @workflow
    async def either(n: int) -> int:
        return await picky(n) if n == 3 else await patient(n)

    async with Environment([one_of_many, either, patient]) as env:
        run = await env.client.start(one_of_many)
        with pytest.raises(RunFailed):
            await run.result()
        async for one in env.client.runs():
            await one.wait()
        ends = {one.record.input: one.status async for one in env.client.runs(RunFilter(workflow=either))}
        assert ends.pop(b"[3]") == RunStatus.FAILED
        assert [ends[f"[{n}]".encode()] for n in range(3)] == [RunStatus.CANCELLED] * 3


async def test_collect_gives_a_failure_in_the_place_of_its_item_on_every_store(url):
    @workflow
    async def collecting() -> list[str]:
        found = await holdfast.map(picky_child, range(5), on_error="collect", chunk=2)
        return [f"{one.type}: {one.message}" if isinstance(one, Failure) else str(one) for one in found]

    async with AsyncClient(url) as client, Worker(client, workflows=[collecting, picky_child]):
        run = await client.start(collecting)
        assert await run.result(timeout=60) == ["0", "1", "2", "SoldOut: not three", "4"]


async def test_a_cancel_reaches_chunk_runs_and_through_them_the_children_on_every_store(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[waiting, patient]):
        run = await client.start(waiting, 3)

        async def begun() -> bool:
            return len([one async for one in client.runs(RunFilter(workflow=patient, status="waiting"))]) == 3

        await until(begun)
        await run.cancel()

        async def ended() -> bool:
            return all([one.status is RunStatus.CANCELLED async for one in client.runs()])

        await until(ended)
        assert len([one async for one in client.runs()]) == 6


async def test_a_map_in_a_mapped_workflow():
    async with Environment([nested, mapping, child]) as env:
        assert await (await env.client.start(nested, 3)).result() == [[0], [0, 2], [0, 2, 4]]


async def test_results_that_are_too_large_together_are_mapped_on_every_store(url):
    @workflow
    async def page(n: int) -> str:
        return str(n) * 100_000

    @workflow
    async def reading() -> list[str]:
        return [found[:2] for found in await holdfast.map(page, range(10, 100))]

    async with AsyncClient(url) as client, Worker(client, workflows=[reading, page]):
        run = await client.start(reading)
        assert await run.result(timeout=60) == [str(n) for n in range(10, 100)]


async def test_items_and_results_are_of_the_workflows_types():
    @workflow
    async def grow(parcel: Parcel) -> Parcel:
        assert isinstance(parcel, Parcel)
        return Parcel(parcel.number + 1)

    @workflow
    async def typed() -> list[Parcel]:
        found = await holdfast.map(grow, [Parcel(1), Parcel(2)])
        assert found == [Parcel(2), Parcel(3)]
        return found

    async with Environment([typed, grow]) as env:
        assert await (await env.client.start(typed)).result() == [Parcel(2), Parcel(3)]


async def test_a_plain_body_maps_a_machine_over_items():
    def start(ctx):
        return Done(ctx.input + 1)

    counter = Machine("counter", {"start": start})

    @workflow
    def plain() -> list[int]:
        return blocking.map(counter, [1, 2])

    async with Environment([plain, counter]) as env:
        assert await (await env.client.start(plain)).result() == [2, 3]


async def test_a_map_without_items_starts_no_runs():
    async with Environment([mapping, child]) as env:
        run = await env.client.start(mapping, 0)
        assert await run.result() == []
        assert [one.id async for one in env.client.runs()] == [run.id]


async def test_chunk_runs_are_taken_by_workers_that_do_not_know_the_items(url):
    async with AsyncClient(url) as client:
        run = await client.start(mapping, 2)
        async with Worker(client, workflows=[mapping]):

            async def asked() -> bool:
                return bool([one async for one in client.runs(RunFilter(workflow=child))])

            await until(asked)
            await until_waiting(run)
        async with Worker(client, workflows=[child]):
            [chunk] = [one async for one in client.runs(RunFilter(parent=run.id))]
            assert await chunk.wait(timeout=60) is RunStatus.COMPLETED
        async with Worker(client, workflows=[mapping]):
            assert await run.result(timeout=60) == [0, 2]


async def test_chunk_runs_are_on_the_queue_of_their_items(url):
    @workflow(queue="slow")
    async def slow(n: int) -> int:
        return n

    @workflow
    async def mapped() -> list[int]:
        return await holdfast.map(slow, [1, 2])

    async with AsyncClient(url) as client, Worker(client, workflows=[mapped], queues=["default"]):
        run = await client.start(mapped)
        async with Worker(client, workflows=[slow], queues=["slow"]):
            assert await run.result(timeout=60) == [1, 2]


async def test_a_retry_keeps_what_chunk_runs_have_completed():
    is_open = []

    @step(retry=Retry(attempts=1))
    async def opened(n: int) -> int:
        executed[n] = executed.get(n, 0) + 1
        if n == 3 and not is_open:
            raise SoldOut("not yet")
        return n

    @workflow
    async def shop(n: int) -> int:
        return await opened(n)

    @workflow
    async def shopping() -> list[int]:
        return await holdfast.map(shop, range(5), chunk=2, concurrency=1)

    executed.clear()
    async with Environment([shopping, shop]) as env:
        run = await env.client.start(shopping)
        with pytest.raises(RunFailed):
            await run.result()
        is_open.append(True)
        assert await (await env.client.retry(run.id)).result() == [0, 1, 2, 3, 4]
    assert executed == {0: 1, 1: 1, 2: 2, 3: 2, 4: 1}


async def test_the_workflow_of_chunk_runs_is_listed_only_when_there_are_chunk_runs():
    async with Environment([mapping, child]) as env:
        assert [one.name for one in await env.client.workflows()] == ["child", "mapping"]
        await (await env.client.start(mapping, 1)).result()
        assert [one.name for one in await env.client.workflows()] == ["child", "holdfast.map", "mapping"]


def test_a_workflow_with_the_name_of_chunk_runs_is_refused():
    @workflow(name="holdfast.map")
    async def mine() -> None: ...

    with pytest.raises(DuplicateWorkflow, match=r"holdfast\.map"):
        Worker("sqlite:///:memory:", workflows=[mine])


def test_a_map_in_chunk_runs_survives_a_crash_at_every_commit():
    assert_durable(mapping, 3, 2, effects=executed)


def test_a_nested_map_survives_a_crash_at_every_commit():
    assert_durable(nested, 1, effects=executed)


def test_a_map_with_a_failed_child_survives_a_crash_at_every_commit():
    assert_durable(stopping, 4, 4)
