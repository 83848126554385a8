"""A client that is called in a body: the run is blocked until the code is mended, and undoes nothing."""

from __future__ import annotations

import pytest

from holdfast import AsyncClient, IOInBody, compensate, workflow
from tests.worker.samples import add
from tests.worker.stage import PATIENCE, stage


async def test_a_client_in_a_body_blocks_the_run_and_leaves_it_intact(database_url):
    @workflow(name="order")
    async def broken() -> int:
        n = await add(1, 1)
        compensate(add, 2, 2)
        await AsyncClient(database_url).signal("another", "go")
        return n

    @workflow(name="order")
    async def fixed() -> int:
        return await add(1, 1)

    async with stage(database_url) as on:
        run = await on.client.start(broken)
        async with on.worker(broken):
            assert "holdfast.signal" in await on.until_blocked(run)
            assert (await on.record(run)).status == "waiting"
        async with on.worker(fixed):
            assert await run.result(PATIENCE) == 2


async def test_a_body_may_go_on_without_the_client_that_it_was_refused(database_url):
    @workflow
    async def careful() -> str:
        with pytest.raises(IOInBody):
            await AsyncClient(database_url).signal("another", "go")
        return "went on"

    async with stage(database_url, careful) as on:
        assert await (await on.client.start(careful)).result(PATIENCE) == "went on"
