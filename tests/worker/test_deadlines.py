"""A deadline while a step is in flight."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import DeadlineExceeded, RunFailed, sleep, step, workflow
from tests.worker.stage import stage, until

PATIENCE = "5s"


async def test_a_deadline_cancels_a_step_in_flight(database_url):
    seen: list[str] = []

    @step
    async def slow() -> None:
        seen.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("left")

    @workflow(deadline="1h")
    async def body() -> None:
        await slow()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: seen)
        on.skip("2h")
        assert await run.wait(PATIENCE) == "failed"
        await until(lambda: seen == ["began", "left"])


async def test_a_declared_deadline_holds_for_a_run_started_by_name(database_url):
    @workflow(name="timed", deadline="1h")
    async def timed() -> None:
        await sleep("2h")

    async with stage(database_url, timed) as on:
        run = await on.client.start("timed")
        await on.until_waiting(run)
        on.skip("61m")
        assert await run.wait(PATIENCE) == "failed"


@pytest.mark.parametrize("options", [{"delay": "1d"}, {}])
async def test_a_run_that_has_not_begun_at_its_deadline_fails_and_never_begins(database_url, options):
    seen: list[str] = []

    @workflow(name="late")
    async def late() -> None:
        seen.append("began")

    async with stage(database_url) as on:
        run = await on.client.start(late, deadline="1h", **options)
        if not options:
            on.skip("2h")
        async with on.worker(late):
            on.skip("2h")
            with pytest.raises(RunFailed) as failed:
                await run.result(PATIENCE)
        assert isinstance(failed.value.__cause__, DeadlineExceeded)
        assert "had not begun when its deadline" in str(failed.value.__cause__)
        assert seen == []
        assert await on.kinds(run) == ["ended"]


async def test_no_step_begins_behind_a_deadline(database_url):
    begun: list[str] = []

    @step
    async def first() -> None:
        # The worker takes the result in before its alarm can ring.
        on.clock.skipped += 7_200_000_000

    @step
    async def second() -> None:
        begun.append("second")

    @workflow(deadline="1h")
    async def body() -> None:
        await first()
        await second()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        assert await run.wait(PATIENCE) == "failed"
        assert begun == []
