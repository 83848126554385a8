"""The items of a map in an environment: their retries and timeouts go by its clock, and nobody really waits."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast import Failure, Retry, current_step, step, workflow
from holdfast.testing import Environment, assert_durable, takes

START = datetime(2030, 1, 1, tzinfo=UTC)
HOURLY = Retry(attempts=3, initial="1h", factor=1, jitter=0)
tries: list[str] = []
told: dict[str, str] = {}


def third_time(page: int) -> str:
    """Page 2 comes at the third time of asking."""
    tries.append(current_step().idempotency_key)
    if page == 2 and tries.count(tries[-1]) < 3:
        raise OSError("try again")
    told[current_step().idempotency_key] = f"page {page}"
    return f"page {page}"


@step(retry=HOURLY, timeout="10m")
async def fetch(page: int) -> str:
    return third_time(page)


@step(retry=HOURLY)
def render(page: int) -> str:
    return third_time(page)


STEPS = {"async def": fetch, "def": render}


@workflow
async def mapping(how: str) -> list[str]:
    found = await holdfast.map(STEPS[how], [1, 2, 3], chunk=3, on_error="collect")
    return [one.type if isinstance(one, Failure) else one for one in found]


@step(retry=HOURLY)
def second_time(page: int) -> int:
    if current_step().attempt < 2:
        raise OSError("try again")
    return page


@workflow
async def wide(count: int) -> int:
    return len(await holdfast.map(second_time, range(count), chunk=1, concurrency=count))


@pytest.fixture(autouse=True)
def _begin_anew():
    tries.clear()


@pytest.mark.parametrize("stubs", [{}, {fetch: third_time, render: third_time}], ids=["steps", "stubs"])
@pytest.mark.parametrize("how", STEPS)
async def test_an_item_is_tried_again_when_the_environment_says_that_it_is_time(how, stubs):
    async with Environment(mapping, stubs=stubs, start=START) as env:
        run = await env.client.start(mapping, how)
        await env.skip("59m")
        assert len(tries) == 2
        assert await run.result() == ["page 1", "page 2", "page 3"]
        assert (len(tries), env.now) == (5, START + timedelta(hours=2))


async def test_an_item_that_takes_too_long_runs_into_its_timeout():
    def slow(page: int):
        return takes("20m" if page == 2 else "5m", f"page {page}")

    async with Environment(mapping, stubs={fetch: slow}, start=START) as env:
        run = await env.client.start(mapping, "async def")
        assert await run.result() == ["page 1", "StepTimeout", "page 3"]
        assert env.now == START + timedelta(hours=2, minutes=5 + 3 * 10 + 5)


@pytest.mark.parametrize("how", STEPS)
async def test_retries_of_an_item_end_within_their_time(how):
    step_of = STEPS[how].options(retry=Retry(attempts=None, initial="1h", factor=1, jitter=0, within="90m"))

    @workflow
    async def hasty() -> int:
        found = await holdfast.map(step_of, [2], on_error="collect")
        return len(found)

    def never(page: int) -> str:
        tries.append("again")
        raise OSError("never")

    async with Environment(hasty, stubs={STEPS[how]: never}, start=START) as env:
        await (await env.client.start(hasty)).result()
        assert len(tries) == 2


async def test_an_item_knows_its_deadline():
    seen: list[datetime | None] = []

    def looks(page: int) -> str:
        seen.append(current_step().deadline)
        return "page"

    async with Environment(mapping, stubs={fetch: looks}, start=START) as env:
        await (await env.client.start(mapping, "async def")).result()
    assert seen == [START + timedelta(minutes=10)] * 3


@pytest.mark.parametrize("how", STEPS)
async def test_an_environment_can_be_left_while_an_item_waits_to_be_tried_again(how):
    async with Environment(mapping, start=START) as env:
        await env.client.start(mapping, how)
        await env.skip("1m")
    assert len(tries) == 2


@pytest.mark.parametrize("how", STEPS)
def test_a_map_of_items_that_are_tried_again_is_durable(how):
    assert_durable(mapping, how, effects=told)


async def test_more_chunks_than_an_event_loop_has_threads_wait_for_time_side_by_side():
    async with Environment(wide, start=START) as env:
        run = await env.client.start(wide, 32)
        # Of the real time: a chunk that finds no thread keeps the environment's from moving.
        async with asyncio.timeout(20):
            assert await run.result() == 32
        assert env.now == START + timedelta(hours=1)
