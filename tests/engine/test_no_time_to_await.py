"""What a body had no time to await, or left to a task, is not forgotten."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast import workflow
from tests.engine.samples import double, echo, refuse, triple


def test_a_body_that_fails_fails_with_its_own_error(begin):
    """The error of the body matters more than a forgotten await."""

    @workflow
    async def body() -> None:
        double.start(1)
        raise ValueError("mine")

    assert str(begin(body).error) == "mine"


def test_a_cancelled_run_is_not_stopped_by_a_step_it_had_no_time_to_await(begin):
    @workflow
    async def body() -> int:
        one = double.start(1)
        await double(2)
        return await one

    drive = begin(body)
    drive.cancel()
    assert drive.status == "cancelled"


def test_a_task_of_a_step_is_awaited_by_itself(begin):
    @workflow
    async def body() -> int:
        task = asyncio.create_task(double(1))
        result = await double(2)
        task.cancel()
        return result

    drive = begin(body)
    drive.complete("double")
    assert drive.result == 4


def test_a_failing_step_that_nobody_awaits_in_a_task_is_no_error_of_the_run(begin):
    """A fire-and-forget task is the user's choice: only durable calls that were never begun are errors."""

    @workflow
    async def body() -> int:
        task = asyncio.create_task(refuse("visa"))
        await double(1)
        return len(repr(task)[:1])

    drive = begin(body)
    drive.fail("refuse", ValueError("unseen"))
    drive.complete("double")
    assert drive.status == "completed"


def test_a_task_that_starts_an_abandoned_child_as_the_body_ends_is_no_error(begin):
    @workflow
    async def child() -> None: ...

    @workflow
    async def body() -> int:
        task = asyncio.create_task(child.options(on_parent_end="abandon")())
        return len(repr(task)[:1])

    assert begin(body).finish().check().result == 1


def test_a_step_that_the_cleanup_of_a_cancelled_task_had_no_time_to_await_is_no_error(begin):
    @workflow
    async def body() -> int:
        async def waits() -> None:
            try:
                await holdfast.sleep("1h")
            finally:
                await asyncio.gather(double(3), double(4))

        task = asyncio.create_task(waits())
        result = await double(2)
        task.cancel()
        return result

    assert begin(body).finish().check().result == 4


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


def test_tasks_of_a_failed_task_group_that_had_no_time_to_begin_are_no_error(begin):
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


async def given_up_half_way() -> int:
    later = echo.start("later")
    await double(1)
    return len(await later)


async def failing_half_way() -> int:
    later = echo.start("later")
    await refuse("visa")
    return len(await later)


@workflow
async def beside_one_that_goes_on() -> int:
    task = asyncio.create_task(given_up_half_way())
    triple(1)
    return int(not task.done())


@workflow
async def beside_one_that_was_cancelled() -> int:
    task = asyncio.create_task(given_up_half_way())
    triple(1)
    task.cancel()
    await asyncio.wait([task])
    return 1


@workflow
async def beside_one_that_has_failed() -> int:
    task = asyncio.create_task(failing_half_way())
    await asyncio.wait([task])
    return 1


@pytest.mark.parametrize("body", [beside_one_that_goes_on, beside_one_that_was_cancelled])
def test_a_task_that_never_reached_its_await_has_forgotten_nothing(begin, body):
    drive = begin(body)
    drive.complete("triple")
    assert drive.check().result == 1


def test_a_task_that_failed_before_its_await_has_forgotten_nothing(begin):
    drive = begin(beside_one_that_has_failed)
    drive.fail("refuse", ValueError("no"))
    assert drive.check().result == 1
