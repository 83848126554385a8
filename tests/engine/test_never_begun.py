"""A durable call that was handed to a task has been looked at, also if the task ended before it began."""

from __future__ import annotations

import asyncio

from holdfast import workflow
from tests.engine.samples import double


def test_wait_for_over_a_coroutine_that_times_out_at_once_is_no_error(begin):
    @workflow
    async def body() -> str:
        try:
            await asyncio.wait_for(double(1), 0)
        except TimeoutError:
            return "late"
        return "in time"

    assert begin(body).finish().check().result == "late"


def test_a_cancelled_task_that_never_began_is_no_error(begin):
    @workflow
    async def body() -> int:
        task = asyncio.create_task(double(1))
        task.cancel()
        return await double(2)

    assert begin(body).finish().check().result == 4


def test_the_siblings_of_a_failure_in_a_task_group_that_had_no_time_to_begin_are_no_error(begin):
    @workflow
    async def body() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(double(1))
                raise ValueError("at once")
        except* ValueError:
            pass
        return "caught"

    assert begin(body).finish().check().result == "caught"
