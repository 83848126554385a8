"""Children that were given an id, when the run that asked for them is retried by hand, or forked."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast import RunFailed, RunFilter, RunStatus, workflow
from holdfast.testing import Environment
from tests.life.doors import prepare

mended: list[bool] = []


@workflow
async def paying(cents: int) -> str:
    await holdfast.wait_for_signal("paid")
    return f"paid {cents}"


@workflow
async def awaiting() -> str:
    return await paying.options(id="payment").start(100)


@workflow
async def failing_behind_it() -> str:
    payment = paying.options(id="payment").start(100)
    if not mended:
        raise KeyError("a mistake of the body's own")
    return await payment


async def test_a_retry_joins_the_run_again_that_the_old_one_had_joined_by_its_id():
    async with Environment(workflows=[awaiting, paying]) as env:
        payment = await env.client.start(paying, 100, id="payment")
        run = await env.client.start(awaiting)
        await env.until_waiting(run)
        await run.cancel(force=True)
        again = await env.client.retry(run.id)
        await env.until_waiting(again)
        await payment.signal("paid")
        assert await again.result() == "paid 100"
        assert await env.client.count(RunFilter(workflow=paying)) == 1


@workflow
async def awaiting_behind_two_steps() -> str:
    payment = paying.options(id="payment").start(100)
    await prepare(await prepare(1))
    return await payment


async def test_a_fork_waits_for_the_same_child_with_an_id_that_was_open_at_its_cut():
    async with Environment(workflows=[awaiting_behind_two_steps, paying]) as env:
        run = await env.client.start(awaiting_behind_two_steps)
        await env.until_waiting(run)
        fork = await env.client.fork(run.id, at="prepare:1")
        await env.until_waiting(fork)
        await env.client.signal("payment", "paid")
        assert [await run.result(), await fork.result()] == ["paid 100", "paid 100"]
        assert await env.client.count(RunFilter(workflow=paying)) == 1


async def test_a_retry_begins_a_child_with_an_id_again_that_the_body_asked_for_just_before_it_failed():
    mended.clear()
    async with Environment(workflows=[failing_behind_it, paying]) as env:
        run = await env.client.start(failing_behind_it)
        assert await run.wait() is RunStatus.FAILED
        mended.append(True)
        again = await env.client.retry(run.id)
        await env.until_waiting(again)
        [child] = [one async for one in env.client.runs(RunFilter(parent=again.id))]
        assert child.id != "payment"
        await child.signal("paid")
        assert await again.result() == "paid 100"


async def test_a_retry_of_a_retry_begins_a_child_with_an_id_again_that_was_asked_for_just_before_the_failure():
    mended.clear()
    async with Environment(workflows=[failing_behind_it, paying]) as env:
        run = await env.client.start(failing_behind_it)
        assert await run.wait() is RunStatus.FAILED
        second = await env.client.retry(run.id)
        assert await second.wait() is RunStatus.FAILED
        mended.append(True)
        third = await env.client.retry(second.id)
        await env.until_waiting(third)
        [child] = [one async for one in env.client.runs(RunFilter(parent=third.id))]
        await child.signal("paid")
        assert await third.result() == "paid 100"


@workflow
async def paying_though_it_was_called_off() -> str:
    """Ends cancelled only if a signal says so, and not by the cancel alone."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        if await holdfast.wait_for_signal("word") == "stop":
            raise
    return "paid"


@workflow
async def awaiting_what_was_called_off() -> str:
    return await paying_though_it_was_called_off.options(id="payment").start()


async def _cancelled(env, run):
    """The run has ended and called off its child, which has not ended yet."""
    await env.until_waiting(run)
    await run.cancel()
    assert await run.wait() is RunStatus.CANCELLED


async def _told(env, child_id, word):
    child = await env.client.get_run(child_id)
    await child.signal("word", word)
    await child.wait()


async def _cancelled_twice(env):
    """The retry of a cancelled parent, which was cancelled, too."""
    run = await env.client.start(awaiting_what_was_called_off)
    await _cancelled(env, run)
    second = await env.client.retry(run.id)
    await _cancelled(env, second)
    return second


async def test_a_child_that_was_called_off_is_not_joined_though_the_child_before_it_has_completed():
    async with Environment(workflows=[awaiting_what_was_called_off, paying_though_it_was_called_off]) as env:
        second = await _cancelled_twice(env)
        await _told(env, "payment", "pay")
        await _told(env, "payment~1", "stop")
        third = await env.client.retry(second.id)
        await env.until_waiting(third)
        await (await env.client.get_run("payment~1~1")).cancel()
        await _told(env, "payment~1~1", "pay")
        assert await third.result() == "paid"


async def test_a_child_that_completed_though_it_was_called_off_is_joined_whichever_try_has_begun_it():
    async with Environment(workflows=[awaiting_what_was_called_off, paying_though_it_was_called_off]) as env:
        second = await _cancelled_twice(env)
        await _told(env, "payment", "stop")
        await _told(env, "payment~1", "pay")
        third = await env.client.retry(second.id)
        assert await third.result() == "paid"
        assert await env.client.count(RunFilter(workflow=paying_though_it_was_called_off)) == 2


@workflow
async def paying_by_instalments(left: int) -> str:
    if not left:
        return "paid"
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await holdfast.wait_for_signal("word")
    paying_by_instalments.continue_as_new(left - 1)


@workflow
async def awaiting_instalments() -> str:
    return await paying_by_instalments.options(id="payment").start(1)


async def test_a_child_that_completed_in_a_later_run_of_its_chain_though_it_was_called_off_is_joined():
    async with Environment(workflows=[awaiting_instalments, paying_by_instalments]) as env:
        run = await env.client.start(awaiting_instalments)
        await _cancelled(env, run)
        await _told(env, "payment", "pay")
        assert await (await env.client.retry(run.id)).result() == "paid"
        assert await env.client.count(RunFilter(workflow=paying_by_instalments)) == 2


@workflow
async def joining_itself(is_chained: bool) -> str:
    if is_chained:
        joining_itself.continue_as_new(False)
    return await joining_itself.options(id="launch").start(False)


@pytest.mark.parametrize("is_chained", [False, True], ids=["the run's", "its chain's"])
async def test_a_run_that_would_join_itself_by_an_id_fails_with_advice(is_chained):
    async with Environment([joining_itself]) as env:
        run = await env.client.start(joining_itself, is_chained, id="launch")
        with pytest.raises(RunFailed, match=r"options\(id='launch'\).*it would join itself.*give the child another id"):
            await run.result(timeout=5)
