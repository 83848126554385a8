"""Bodies that block the loop, do I/O, or no longer match their journal: reported or blocked, never failed."""

from __future__ import annotations

import asyncio
import logging
import time

from holdfast import sleep, workflow
from tests.worker.samples import add
from tests.worker.stage import PATIENCE, stage, until


async def test_a_body_that_blocks_is_reported_with_its_line(database_url, caplog):
    @workflow
    async def body() -> None:
        time.sleep(0.4)  # the line

    caplog.set_level(logging.WARNING)
    async with stage(database_url, body, blocked_after="50ms") as on:
        await (await on.client.start(body)).result(PATIENCE)
        await until(lambda: "time.sleep(0.4)" in caplog.text)
    assert "body" in caplog.text


async def test_a_def_body_that_blocks_is_reported_with_its_line(database_url, caplog):
    @workflow
    def body() -> None:
        time.sleep(0.4)  # the line

    caplog.set_level(logging.WARNING)
    async with stage(database_url, body, blocked_after="50ms") as on:
        await (await on.client.start(body)).result(PATIENCE)
        await until(lambda: "time.sleep(0.4)" in caplog.text)


async def test_io_in_a_body_blocks_the_run_and_leaves_it_intact(database_url):
    @workflow(name="order")
    async def broken() -> int:
        n = await add(1, 1)
        await asyncio.to_thread(print, n)
        return n

    @workflow(name="order")
    async def fixed() -> int:
        return await add(1, 1)

    async with stage(database_url) as on:
        run = await on.client.start(broken)
        async with on.worker(broken):
            assert "move this into a step" in await on.until_blocked(run)
            assert (await on.record(run)).status == "waiting"
        async with on.worker(fixed):
            assert await run.result(PATIENCE) == 2


async def test_changed_code_blocks_the_run_and_fixed_code_goes_on(database_url):
    @workflow(name="order")
    async def before() -> int:
        n = await add(1, 1)
        await sleep("1h")
        return n

    @workflow(name="order")
    async def changed() -> int:
        n = await add(2, 2)
        await sleep("1h")
        return n

    async with stage(database_url) as on:
        run = await on.client.start(before)
        async with on.worker(before):
            await on.until_waiting(run)
        on.skip("2h")
        async with on.worker(changed):
            assert "does not match its journal" in await on.until_blocked(run)
            assert (await on.record(run)).status == "waiting"
        async with on.worker(before):
            assert await run.result(PATIENCE) == 2


async def test_a_blocked_run_is_tried_again_by_itself(database_url):
    """With backoff: nobody has to start a worker for it."""
    lives: list[int] = []

    @workflow
    async def body() -> str:
        lives.append(1)
        if len(lives) == 1:
            add.start(1, 1)
        return "done"

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_blocked(run)

        async def is_ended() -> bool:
            on.skip("1h")
            return (await on.record(run)).status.is_final

        await until(is_ended)
        assert await run.result(PATIENCE) == "done"


async def test_a_blocked_run_counts_neither_as_an_error_nor_as_a_crash(database_url):
    tries: list[int] = []

    @workflow(max_crashes=1)
    async def body() -> None:
        tries.append(1)
        add.start(1, 1)

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        for so_often in range(1, 6):
            await until(lambda so_often=so_often: len(tries) >= so_often)
            await on.until_blocked(run)
            on.skip("1d")
        record = await on.record(run)
    assert (record.status.is_final, record.crashes) == (False, 0)


async def test_an_input_that_no_longer_fits_blocks_the_run(database_url):
    @workflow(name="order")
    async def before(n: int) -> None: ...

    @workflow(name="order")
    async def after(n: dict[str, int]) -> None: ...

    async with stage(database_url) as on:
        run = await on.client.start(before, 1)
        async with on.worker(after):
            await on.until_blocked(run)
            assert (await on.record(run)).status == "waiting"
        async with on.worker(before):
            assert await run.wait(PATIENCE) == "completed"
