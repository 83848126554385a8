"""continue_as_new against cancels and against bodies that catch everything; map against timeouts."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import holdfast
from holdfast import RunCancelled, step, workflow
from holdfast.testing import Environment, takes


@step
async def work(number: int) -> int:
    return number


@workflow
async def goes_on_shielded(number: int) -> int:
    if number > 3:
        return number
    with holdfast.shield():
        await work(number)
        holdfast.continue_as_new(number + 1)


@workflow
async def catches_everything(number: int) -> str:
    if number > 1:
        return "went on"
    with contextlib.suppress(BaseException):
        holdfast.continue_as_new(number + 1)
    return "stayed"


@workflow
async def maps_in_time() -> str:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(60):
            await holdfast.map(work, [1, 2, 3], chunk=1)
    await holdfast.sleep("10h")
    return "over"


async def test_a_cancel_that_a_shield_kept_back_is_not_lost_when_the_run_continues_as_new() -> None:
    async with Environment([goes_on_shielded], stubs={work: takes("1h", 1)}) as env:
        run = await env.client.start(goes_on_shielded, 1)
        await env.skip("5m")
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(timeout="10h")


async def test_a_body_that_catches_every_exception_can_continue_as_new() -> None:
    async with Environment([catches_everything]) as env:
        run = await env.client.start(catches_everything, 1)
        assert await run.result() == "went on"


async def test_a_map_that_ran_out_of_time_withdraws_its_chunks() -> None:
    # What a withdrawn step comes to is nobody's, so it is no entry.
    async with Environment([maps_in_time], stubs={"work.map": takes("1h", ([1], {}))}) as env:
        run = await env.client.start(maps_in_time)
        assert await run.result(timeout="1d") == "over"
        assert "step_completed" not in [entry.kind for entry in await env.client.journal(run.id)]
