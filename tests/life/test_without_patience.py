"""Waits without patience: `timeout=0` takes what has come already, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, RunFailed, WaitTimeout, Worker, blocking, workflow
from holdfast.testing import Environment, assert_durable


@workflow
async def all_that_came() -> list[Any]:
    await holdfast.wait_for_signal("now")
    found = []
    while (one := await holdfast.wait_for_signal("item", timeout=0, default=None)) is not None:
        found.append(one)
    return found


@workflow
def one_in_a_plain_body() -> Any:
    return blocking.wait_for_signal("item", timeout=0, default="none")


@workflow
async def at_once() -> Any:
    return await holdfast.wait_for_signal("item", timeout=0)


@workflow
async def an_event_if_there_was_one() -> Any:
    await holdfast.wait_for_signal("now")
    return await holdfast.wait_for_event("paid", timeout=0, default="none")


async def test_waits_with_a_timeout_of_zero_take_signals_that_have_come_in_their_order():
    async with Environment(all_that_came) as env:
        run = await env.client.start(all_that_came)
        for number in (1, 2, 3):
            await run.signal("item", number)
        await run.signal("now")
        assert await run.result() == [1, 2, 3]


async def test_a_wait_with_a_timeout_of_zero_takes_a_signal_that_came_before_the_run_began():
    async with Environment(one_in_a_plain_body) as env:
        run = await env.client.start(one_in_a_plain_body, delay="1h")
        await run.signal("item", 7)
        assert await run.result() == 7


async def test_a_wait_with_a_timeout_of_zero_ends_at_once_if_no_signal_has_come():
    async with Environment(at_once) as env:
        run = await env.client.start(at_once)
        began = env.now
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert isinstance(failed.value.__cause__, WaitTimeout)
        assert env.now == began


async def test_a_wait_with_a_timeout_of_zero_takes_a_published_event_on_every_store(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[an_event_if_there_was_one]):
        run = await client.start(an_event_if_there_was_one)
        await client.publish("paid", 7)
        await run.signal("now")
        assert await run.result(timeout=30) == 7


async def test_a_wait_with_a_timeout_of_zero_ends_at_once_on_every_store_if_there_is_no_event(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[an_event_if_there_was_one]):
        run = await client.start(an_event_if_there_was_one)
        await run.signal("now")
        assert await run.result(timeout=30) == "none"


def test_messages_taken_with_a_timeout_of_zero_survive_a_crash_at_every_commit():
    async def send(env: Environment, run: Any) -> None:
        await run.signal("item", 1)
        await run.signal("item", 2)
        await run.signal("now")

    assert_durable(all_that_came, drive=send)
