"""What was sent to a run that goes on in another: messages, events and payloads of hooks are the chain's."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, Retry, Worker, step, workflow
from holdfast.testing import Environment, assert_durable
from tests.life.chains import counting, summing

tokens: dict[str, str] = {}


@step
async def send(token: str) -> None:
    tokens["hook"] = token


async def test_unread_signals_go_on_to_the_next_run_of_a_chain():
    async with Environment(summing) as env:
        run = await env.client.start(summing, 0, 3)
        for number in (1, 2, 3):
            await run.signal("add", number)
        assert await run.result() == 6


async def test_a_signal_to_the_first_run_reaches_the_live_one():
    async with Environment(summing) as env:
        run = await env.client.start(summing, 0, 2)
        await env.until_waiting(run)
        await env.client.signal(run.id, "add", 1)
        await env.skip("1m")
        await env.client.signal(run.id, "add", 2)
        assert await run.result() == 3


async def test_an_event_goes_to_one_wait_of_a_chain():
    @workflow
    async def watching(found: list[Any]) -> list[Any]:
        event = await holdfast.wait_for_event("paid", timeout="1h", default=None)
        if event is None:
            return found
        watching.continue_as_new([*found, event])

    async with Environment(watching) as env:
        run = await env.client.start(watching, [])
        await env.until_waiting(run)
        await env.client.publish("paid", 1)
        await env.client.publish("paid", 2)
        assert await run.result() == [1, 2]


async def test_an_open_hook_goes_on_to_the_next_run_of_a_chain():
    @workflow
    async def asking(n: int) -> Any:
        hook = holdfast.hook(name="answer")
        if n == 0:
            await send(hook.token)
            asking.continue_as_new(1)
        return await hook.wait()

    async with Environment(asking) as env:
        run = await env.client.start(asking, 0)
        await env.skip("1m")
        await env.client.resume_hook(tokens["hook"], "yes")
        assert await run.result() == "yes"


@workflow
async def busy_with_other_things(n: int) -> Any:
    hook = holdfast.hook(name="answer")
    if n == 0:
        await send(hook.token)
    if n < 3:
        await holdfast.sleep("1h")
        busy_with_other_things.continue_as_new(n + 1)
    return await hook.wait()


async def answer(env: Any) -> None:
    await env.skip("1m")
    await env.client.resume_hook(tokens["hook"], "yes", message_id="1")


def test_an_unread_hook_payload_goes_on_to_the_next_run_wherever_a_worker_dies():
    async def drive(env: Any, run: Any) -> None:
        await answer(env)
        assert await run.result() == "yes"

    assert_durable(busy_with_other_things, 0, drive=drive)


async def test_a_hook_payload_that_was_read_does_not_go_on_to_the_next_run():
    @workflow
    async def asking(n: int) -> Any:
        hook = holdfast.hook(name="answer", expires="1h")
        if n == 0:
            await send(hook.token)
            await hook.wait()
            asking.continue_as_new(1)
        return await hook.wait()

    async with Environment(asking) as env:
        run = await env.client.start(asking, 0)
        await answer(env)
        with pytest.raises(holdfast.RunFailed, match="expired"):
            await run.result()


async def test_a_hook_payload_that_came_after_its_wait_was_given_up_goes_on_to_the_next_run():
    @workflow
    async def impatient(n: int) -> Any:
        hook = holdfast.hook(name="answer")
        if n == 1:
            return await hook.wait()
        await send(hook.token)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await hook.wait()
        await holdfast.sleep("1h")
        impatient.continue_as_new(1)

    async with Environment(impatient) as env:
        run = await env.client.start(impatient, 0)
        await answer(env)
        assert await run.result() == "yes"


async def test_a_signal_that_a_retry_has_put_back_goes_on_to_the_next_run():
    failures: list[ConnectionError] = [ConnectionError()]

    @step(retry=Retry(attempts=1))
    async def connect() -> None:
        if failures:
            raise failures.pop()

    @workflow(retry=Retry(attempts=2, initial="1s"))
    async def trying(n: int) -> Any:
        if n == 0:
            try:
                await connect()
            except ConnectionError:
                await holdfast.wait_for_signal("go")
                raise
            trying.continue_as_new(1)
        return await holdfast.wait_for_signal("go", timeout="1h", default="lost")

    async with Environment(trying) as env:
        run = await env.client.start(trying, 0)
        await run.signal("go", "kept")
        assert await run.result() == "kept"


def test_the_messages_of_a_chain_survive_a_crash_at_every_commit():
    async def drive(env: Any, run: Any) -> None:
        for number in (1, 2):
            await run.signal("add", number, message_id=str(number))

    assert_durable(summing, 0, 2, drive=drive)


async def test_a_signal_to_an_ended_chain_is_refused(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[counting]):
        run = await client.start(counting, 0, 2)
        assert await run.result(timeout=30) == 2
        with pytest.raises(holdfast.RunEnded):
            await client.signal(run.id, "add", 3)
