"""Children that were given an id, when the run that asked for them is retried by hand."""

from __future__ import annotations

import holdfast
from holdfast import RunFilter, RunStatus, workflow
from holdfast.testing import Environment

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


async def test_a_retry_joins_the_run_of_somebody_else_again_that_the_old_one_had_joined():
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


async def test_a_retry_begins_a_child_with_an_id_again_that_was_asked_for_where_the_body_failed():
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


async def test_a_retry_of_a_retry_begins_such_a_child_again_too():
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
