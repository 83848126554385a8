"""Time in a run that goes on from a cut: timeouts that are open there have all of their time again, sleeps run on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import holdfast
from holdfast import Retry, RunStatus, WaitTimeout, step, workflow
from holdfast.testing import Environment, assert_durable
from tests.life.doors import is_open, prepare

HOUR = 3_600


@pytest.fixture(autouse=True)
def shut():
    is_open["door"] = False


@step(retry=Retry(attempts=1))
async def pass_through() -> str:
    if not is_open["door"]:
        raise ConnectionError("the door is shut")
    return "in"


@workflow
async def approving() -> str:
    return str(await holdfast.wait_for_signal("approved", timeout="7d"))


@workflow(retry=Retry(attempts=2, initial="1s", jitter=0))
async def asking_twice() -> str:
    return str(await holdfast.wait_for_signal("approved", timeout="1h"))


@workflow
async def in_a_timeout() -> str:
    async with asyncio.timeout(600):
        return await pass_through()


@workflow
async def leaving_in_time() -> str:
    async with asyncio.timeout(600):
        await prepare(1)
        said = await pass_through()
        await holdfast.sleep("5m")
        return said


@workflow
async def in_a_wait_for() -> str:
    return await asyncio.wait_for(pass_through(), 600)


@workflow
async def beside_a_sleep() -> float:
    begun = holdfast.now()
    await asyncio.gather(holdfast.sleep("10m"), pass_through())
    return (holdfast.now() - begun).total_seconds()


@workflow
async def by_default() -> str:
    answer = await holdfast.wait_for_signal("approved", timeout="1h", default="nobody")
    if not is_open["door"]:
        raise ValueError(answer)
    return str(answer)


@workflow
async def by_a_hook() -> str:
    hook = holdfast.hook(type=str, expires="1h")
    holdfast.set_value("token", hook.token)
    return await hook.wait()


async def test_a_wait_whose_timeout_made_a_run_fail_has_all_of_its_time_in_the_retry():
    async with Environment(approving) as env:
        run = await env.client.start(approving)
        assert await run.wait() is RunStatus.FAILED
        again = await env.client.retry(run.id)
        await env.skip("6d")
        assert (await again.refresh()).status is RunStatus.WAITING
        await env.client.signal(again.id, "approved", "yes")
        assert await again.result() == "yes"


async def test_a_wait_whose_timeout_made_a_run_fail_times_out_again_in_the_retry_when_its_time_is_over():
    async with Environment(approving) as env:
        run = await env.client.start(approving)
        await run.wait()
        again, begun = await env.client.retry(run.id), env.now
        with pytest.raises(holdfast.RunFailed) as failed:
            await again.result()
        assert isinstance(failed.value.__cause__, WaitTimeout)
        assert (env.now - begun).days == 7


async def test_every_try_of_a_run_has_all_of_the_time_of_its_wait():
    async with Environment(asking_twice) as env:
        begun, run = env.now, await env.client.start(asking_twice)
        assert await run.wait() is RunStatus.FAILED
        assert (env.now - begun).total_seconds() == 2 * HOUR + 1


def test_the_time_of_a_second_try_survives_a_crash_at_every_commit():
    async def drive(env: Environment, run: holdfast.AsyncRun[str]) -> None:
        await env.skip("90m")
        await run.signal("approved", "late")
        assert await run.result() == "late"

    assert assert_durable(asking_twice, drive=drive).crashes


@pytest.mark.parametrize("body", [in_a_timeout, in_a_wait_for])
async def test_a_timeout_around_the_call_that_failed_counts_anew_in_the_retry(body: Callable[[], Awaitable[str]]):
    async with Environment(body) as env:
        run = await env.client.start(body)
        assert await run.wait() is RunStatus.FAILED
        await env.skip("1h")
        is_open["door"] = True
        again = await env.client.retry(run.id)
        assert await again.result() == "in"


async def test_a_sleep_beside_the_call_that_failed_goes_on_counting():
    async with Environment(beside_a_sleep) as env:
        run = await env.client.start(beside_a_sleep)
        await run.wait()
        await env.skip("1h")
        is_open["door"], begun = True, env.now
        again = await env.client.retry(run.id)
        assert await again.result() == HOUR
        assert env.now == begun


async def test_a_wait_that_ended_with_its_default_gives_it_at_once_in_the_retry():
    async with Environment(by_default) as env:
        run = await env.client.start(by_default)
        assert await run.wait() is RunStatus.FAILED
        is_open["door"], begun = True, env.now
        again = await env.client.retry(run.id)
        assert (await again.result(), env.now) == ("nobody", begun)


async def test_a_hook_that_had_expired_can_be_resumed_in_the_retry():
    async with Environment(by_a_hook) as env:
        run = await env.client.start(by_a_hook)
        assert await run.wait() is RunStatus.FAILED
        again = await env.client.retry(run.id)
        await env.until_waiting(again)
        await env.client.resume_hook(await again.value("token"), "yes")
        assert await again.result() == "yes"


async def test_a_timeout_has_all_of_its_time_in_a_fork():
    async with Environment(leaving_in_time) as env:
        is_open["door"] = True
        run = await env.client.start(leaving_in_time)
        await run.result()
        # Of the first run's ten minutes one would be left, or none.
        for after in ("9m", "1h"):
            await env.skip(after)
            fork = await env.client.fork(run.id, at="pass_through")
            assert await fork.result() == "in"
