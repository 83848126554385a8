"""What came while nobody had the run is taken in by the time at which it was sent or due."""

from __future__ import annotations

from holdfast import wait_for_event, wait_for_signal, workflow
from tests.worker.samples import nothing
from tests.worker.stage import PATIENCE, stage


@workflow
async def told_at_first() -> str:
    return str(await wait_for_signal("go", timeout="9s", default="late"))


@workflow
async def told_later() -> str:
    await nothing()
    return str(await wait_for_signal("go", timeout="9s", default="late"))


@workflow
async def paid() -> str:
    await nothing()
    return str(await wait_for_event("paid", timeout="9s", default="late"))


async def test_a_signal_sent_after_the_timeout_of_a_run_that_had_only_begun_is_late(database_url):
    async with stage(database_url) as on:
        run = await on.client.start(told_at_first)
        async with on.worker(told_at_first):
            await on.until_waiting(run)
        on.skip("10s")
        await run.signal("go", "in time")
        async with on.worker(told_at_first):
            assert await run.result(PATIENCE) == "late"


async def test_a_signal_sent_before_it_is_in_time_however_late_the_worker_comes(database_url):
    async with stage(database_url) as on:
        run = await on.client.start(told_at_first)
        async with on.worker(told_at_first):
            await on.until_waiting(run)
        await run.signal("go", "in time")
        on.skip("10s")
        async with on.worker(told_at_first):
            assert await run.result(PATIENCE) == "in time"


async def test_a_signal_sent_after_the_timeout_of_a_later_wait_is_late(database_url):
    async with stage(database_url) as on:
        run = await on.client.start(told_later)
        async with on.worker(told_later):
            await on.until_waiting(run)
        on.skip("10s")
        await run.signal("go", "in time")
        async with on.worker(told_later):
            assert await run.result(PATIENCE) == "late"


async def test_an_event_published_before_the_timeout_is_in_time_though_nobody_was_there_to_match_it(database_url):
    async with stage(database_url) as on:
        run = await on.client.start(paid)
        async with on.worker(paid):
            await on.until_waiting(run)
        await on.client.publish("paid", "in time")
        on.skip("10s")
        async with on.worker(paid):
            assert await run.result(PATIENCE) == "in time"
