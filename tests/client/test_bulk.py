"""What is done to many runs at once, by a filter."""

from __future__ import annotations

from holdfast import RunFilter, sleep, workflow
from holdfast.testing import Environment


@workflow
async def sleepy(n: int) -> int:
    await sleep("1h")
    return n


@workflow
async def broken() -> None:
    raise ValueError("no")


async def test_all_live_runs_of_a_filter_are_cancelled_and_counted():
    async with Environment(workflows=[sleepy]) as env:
        runs = await env.client.start_many(sleepy, [(n,) for n in range(3)])
        await env.until_waiting(runs[0])
        assert await env.client.count(RunFilter(workflow=sleepy)) == 3
        assert await env.client.cancel(RunFilter(workflow=sleepy), reason="over") == 3
        assert [await run.wait() for run in runs] == ["cancelled"] * 3
        assert await env.client.cancel(RunFilter(workflow=sleepy)) == 0


async def test_all_failed_runs_of_a_filter_are_retried_and_counted():
    async with Environment(workflows=[broken]) as env:
        for run in await env.client.start_many(broken, [(), ()]):
            await run.wait()
        assert await env.client.retry(RunFilter(workflow=broken, status="failed")) == 2
        assert await env.client.count(RunFilter(workflow=broken)) == 4
