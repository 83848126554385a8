"""A deadline while a step is in flight."""

from __future__ import annotations

import asyncio

from holdfast import step, workflow
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
