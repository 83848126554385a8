"""Compensations go along a chain: what its earlier runs have done is undone by the last, with their own policies."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import AsyncClient, Retry, RunFailed, RunStatus, Worker, compensate, step, workflow
from holdfast.testing import Environment, assert_durable, takes
from tests.life.trips import book_room, cancel_flight, cancel_room, fail, undone
from tests.life.waiting import until_status


@workflow
async def touring(stop: int) -> None:
    compensate(cancel_flight, f"HF{stop}", fee=stop)
    await book_room(f"stop {stop}")
    if stop < 3:
        touring.continue_as_new(stop + 1)
    await fail()


@workflow
async def staying() -> None:
    await holdfast.wait_for_signal("leave")


@workflow
async def arriving() -> None:
    await book_room("Ada")
    staying.continue_as_new()


LAST_FIRST = ["room of stop 3", "HF3 3", "room of stop 2", "HF2 2", "room of stop 1", "HF1 1"]


async def test_steps_of_earlier_runs_of_a_chain_are_undone_too_last_first_on_every_store(url):
    undone.clear()
    async with AsyncClient(url) as client, Worker(client, workflows=[touring]):
        run = await client.start(touring, 1)
        with pytest.raises(RunFailed):
            await run.result(timeout=30)
    assert list(undone.values()) == LAST_FIRST


def test_a_chain_undoes_the_same_steps_wherever_it_crashes():
    undone.clear()
    assert_durable(touring, 1, effects=undone)


async def test_a_cancelled_successor_undoes_what_came_before_it():
    undone.clear()
    async with Environment([arriving, staying]) as env:
        run = await env.client.start(arriving)
        await env.until_waiting(run)
        await run.cancel()
        assert await run.wait() is RunStatus.CANCELLED
    assert list(undone.values()) == ["room of Ada"]


async def test_a_successor_that_was_cancelled_before_it_began_undoes_too(url):
    undone.clear()
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[arriving]):
            run = await client.start(arriving)
            await until_status(run, RunStatus.CONTINUED)
        await client.cancel(run.id)
        async with Worker(client, workflows=[staying]):
            assert await run.wait(timeout=30) is RunStatus.CANCELLED
    assert list(undone.values()) == ["room of Ada"]


async def test_a_successor_that_was_late_before_it_began_undoes_too():
    undone.clear()

    @workflow
    async def late() -> None:
        await book_room("Ada")
        await holdfast.sleep("2h")

    @workflow
    async def slow() -> None:
        await book_room("Eve")
        late.continue_as_new()

    async with Environment([slow, late]) as env:
        run = await env.client.start(slow, deadline="1h")
        assert await run.wait() is RunStatus.FAILED
    assert list(undone.values()) == ["room of Ada", "room of Eve"]


async def test_a_successor_that_completes_undoes_nothing():
    undone.clear()
    async with Environment([arriving, staying]) as env:
        run = await env.client.start(arriving)
        await run.signal("leave")
        await run.result()
    assert not undone


@step
async def give_back(key: str) -> None:
    undone[f"attempt {len(undone) + 1}"] = key
    raise KeyError(key)


@workflow
async def returning(n: int) -> None:
    policy = Retry(attempts=5, initial="1s", kind="fixed", jitter=0, on=KeyError, unless=(), within="4s")
    if n == 0:
        compensate(give_back.options(retry=policy), "room 7")
    if n < 2:
        returning.continue_as_new(n + 1)
    await fail()


async def test_the_retry_policy_of_a_compensation_goes_along_the_chain():
    undone.clear()
    async with Environment(returning) as env:
        run = await env.client.start(returning, 0)
        began = env.now
        assert await run.wait() is RunStatus.FAILED
        # The step by itself would have been tried three times, after one second and then two.
        assert (len(undone), (env.now - began).total_seconds()) == (5, 4)


async def test_the_timeout_of_a_compensation_goes_along_the_chain():
    undone.clear()

    @workflow
    async def leaving(n: int) -> None:
        if n == 0:
            compensate(cancel_room.options(timeout="5s", retry=Retry(attempts=1)), "room of Ada")
            leaving.continue_as_new(1)
        await fail()

    async with Environment(leaving, stubs={cancel_room: takes("1h")}) as env:
        run = await env.client.start(leaving, 0)
        began = env.now
        assert await run.wait() is RunStatus.FAILED
        assert (env.now - began).total_seconds() == 5


async def test_a_retry_policy_with_a_class_that_can_t_be_imported_is_refused_at_the_end_of_a_run_of_a_chain():
    class Hidden(Exception):
        pass

    @workflow
    async def odd(n: int) -> str:
        compensate(cancel_flight.options(retry=Retry(on=Hidden)), "HF1")
        try:
            odd.continue_as_new(n + 1)
        except holdfast.DefinitionError as error:
            return str(error)

    async with Environment(odd) as env:
        assert "names an exception class" in await (await env.client.start(odd, 0)).result()


async def test_a_compensation_that_can_t_be_imported_is_refused_at_the_end_of_a_run_of_a_chain():
    class Desk:
        def close(self) -> None: ...

    @workflow
    async def odd(n: int) -> str:
        compensate(Desk().close)
        try:
            odd.continue_as_new(n + 1)
        except holdfast.DefinitionError as error:
            return str(error)

    async with Environment(odd) as env:
        assert "'close' can't go along" in await (await env.client.start(odd, 0)).result()
