"""A workflow that is tried again as a whole: how long it pauses, and what may happen meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, Retry, RunStatus, Worker, step, workflow
from holdfast.testing import Environment, assert_durable
from tests.life.waiting import PATIENCE, until_status

HOURLY = Retry(attempts=3, initial="1h", max="1h", factor=1, jitter=0)


@step
async def double(n: int) -> int:
    return 2 * n


@workflow(retry=HOURLY)
async def failing_at_once() -> None:
    raise ConnectionError


@workflow(retry=HOURLY)
async def failing_behind_a_step() -> None:
    await double(1)
    raise ConnectionError


@workflow(retry=HOURLY)
async def listening() -> Any:
    await double(1)
    if holdfast.current_run().attempt == 1:
        raise ConnectionError
    return await holdfast.wait_for_signal("go")


async def test_every_pause_is_as_long_as_the_policy_says():
    async with Environment([failing_at_once, failing_behind_a_step]) as env:
        for workflow_ in (failing_at_once, failing_behind_a_step):
            begun = env.now
            assert await (await env.client.start(workflow_)).wait() is RunStatus.FAILED
            assert env.now - begun == timedelta(hours=2)


async def test_the_body_sees_the_time_of_its_own_attempt():
    seen: list[float] = []

    @step
    async def look(seconds: float) -> None:
        seen.append(seconds)

    @workflow(retry=HOURLY)
    async def looking() -> None:
        await look((holdfast.now() - holdfast.current_run().created_at).total_seconds())
        raise ConnectionError

    async with Environment(looking) as env:
        run = await env.client.start(looking)
        await run.wait()
        assert seen == [0.0]


async def test_steps_that_were_recorded_are_not_executed_again():
    async with Environment(failing_behind_a_step) as env:
        await (await env.client.start(failing_behind_a_step)).wait()
        assert len(env.calls(double)) == 1


async def test_a_signal_does_not_shorten_the_pause():
    async with Environment(listening) as env:
        begun = env.now
        run = await env.client.start(listening)
        await env.until_waiting(run)
        await run.signal("go", "early")
        assert await run.result() == "early"
        assert env.now - begun == timedelta(hours=1)


async def test_signals_sent_during_the_pause_are_all_kept_in_order():
    @workflow(retry=HOURLY)
    async def two() -> list[Any]:
        if holdfast.current_run().attempt == 1:
            raise ConnectionError
        return [await holdfast.wait_for_signal("go"), await holdfast.wait_for_signal("go")]

    async with Environment(two) as env:
        run = await env.client.start(two)
        await env.until_waiting(run)
        await run.signal("go", 1)
        await env.skip("10m")
        await run.signal("go", 2)
        assert await run.result() == [1, 2]


async def test_a_signal_that_was_taken_is_put_back_before_those_that_were_sent_later():
    @workflow(retry=HOURLY)
    async def forgetful() -> list[Any]:
        first = await holdfast.wait_for_signal("go")
        if holdfast.current_run().attempt == 1:
            raise ConnectionError
        return [first, await holdfast.wait_for_signal("go")]

    async with Environment(forgetful) as env:
        run = await env.client.start(forgetful)
        await run.signal("go", 1)
        await run.signal("go", 2)
        assert await run.result() == [1, 2]


async def test_a_signal_that_was_taken_is_put_back_behind_those_that_were_sent_before():
    failures: list[ConnectionError] = [ConnectionError()]

    @step(retry=Retry(attempts=1))
    async def connect() -> None:
        if failures:
            raise failures.pop()

    @workflow(retry=HOURLY)
    async def choosy() -> list[Any]:
        try:
            await connect()
        except ConnectionError:
            await holdfast.wait_for_signal("go", match={"to": "b"})
            raise
        return [(await holdfast.wait_for_signal("go"))["to"], (await holdfast.wait_for_signal("go"))["to"]]

    async with Environment(choosy) as env:
        run = await env.client.start(choosy)
        for to in ("a", "b"):
            await run.signal("go", {"to": to})
            await env.skip(1)
        assert await run.result() == ["a", "b"]


async def test_a_hooks_payload_is_put_back_although_the_next_try_first_waits_for_other_things():
    tokens: list[str] = []
    failures: list[ConnectionError] = [ConnectionError()]

    @step(retry=Retry(attempts=1))
    async def connect() -> None:
        if failures:
            raise failures.pop()

    @step
    async def mail(token: str) -> None:
        tokens.append(token)

    @workflow(retry=HOURLY)
    async def asking() -> Any:
        try:
            await connect()
        except ConnectionError:
            await holdfast.wait_for_signal("go", timeout="1m", default=None)
            await mail((hook := holdfast.hook()).token)
            await hook.wait()
            raise
        return await holdfast.hook().wait()

    async with Environment(asking) as env:
        run = await env.client.start(asking)
        await env.skip("2m")
        await env.client.resume_hook(tokens[0], "yes")
        assert await run.result(timeout="1d") == "yes"


@pytest.mark.parametrize("wait", ["0s", "2h"], ids=["during the pause", "after it"])
async def test_a_token_resumes_its_hook_although_the_next_try_comes_to_it_by_another_path(wait):
    tokens: list[str] = []
    failures: list[ConnectionError] = [ConnectionError()]

    @step(retry=Retry(attempts=1))
    async def connect() -> None:
        if failures:
            raise failures.pop()

    @step
    async def mail(token: str) -> None:
        tokens.append(token)

    @workflow(retry=HOURLY)
    async def asking() -> list[Any]:
        try:
            await connect()
        except ConnectionError:
            await holdfast.wait_for_signal("go", timeout="1m", default=None)
            await mail(holdfast.hook().token)
            await mail(holdfast.hook().token)
            raise
        first, second = holdfast.hook(), holdfast.hook()
        return [await first.wait(), await second.wait()]

    async with Environment(asking) as env:
        run = await env.client.start(asking)
        await env.skip("2m")
        await env.skip(wait)
        await env.client.resume_hook(tokens[1], "second")
        await env.client.resume_hook(tokens[0], "first")
        assert await run.result(timeout="1d") == ["first", "second"]


async def test_a_cancel_ends_the_pause():
    async with Environment(listening) as env:
        begun = env.now
        run = await env.client.start(listening)
        await env.until_waiting(run)
        await run.cancel()
        assert await run.wait() is RunStatus.CANCELLED
        assert env.now == begun


def test_a_pause_survives_a_crash_at_every_commit():
    async def drive(env: Any, run: Any) -> None:
        await env.until_waiting(run)
        await run.signal("go", "early")

    assert_durable(listening, drive=drive)


def test_a_body_that_fails_at_once_survives_a_crash_at_every_commit():
    assert_durable(failing_at_once)


async def test_a_signal_during_a_short_pause_is_not_lost(url):
    @workflow(retry=Retry(attempts=2, initial=1, jitter=0))
    async def brief() -> Any:
        if holdfast.current_run().attempt == 1:
            raise ConnectionError
        return await holdfast.wait_for_signal("go")

    async with AsyncClient(url) as client, Worker(client, workflows=[brief]):
        run = await client.start(brief)
        await until_status(run, RunStatus.WAITING)
        await run.signal("go", 1)
        assert await run.result(timeout=30) == 1


async def test_a_signal_that_nobody_had_read_is_read_by_the_run_that_retries(url):
    failures: list[ConnectionError] = [ConnectionError()]

    @step(retry=Retry(attempts=1))
    async def connect() -> None:
        if failures:
            raise failures.pop()

    @workflow
    async def approved() -> Any:
        await connect()
        return await holdfast.wait_for_signal("approved")

    async with AsyncClient(url) as client:
        run = await client.start(approved)
        await run.signal("approved", "early", message_id="m")
        async with Worker(client, workflows=[approved]):
            assert await run.wait() is RunStatus.FAILED
            again = await client.retry(run.id)
            # Whoever is not sure that it was sent may send it again: it is known to have been.
            await again.signal("approved", "late", message_id="m")
            assert await again.result(timeout=PATIENCE) == "early"
