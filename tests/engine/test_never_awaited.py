"""Nothing is skipped in silence because an `await` was forgotten: it is an error that names the line."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import holdfast
from holdfast import NeverAwaited, blocking, workflow
from holdfast.define import Workflow
from tests.engine.drive import Drive
from tests.engine.samples import double, echo, triple


def line_of(body: Workflow[..., Any], text: str = "# forgotten") -> int:
    lines, first = inspect.getsourcelines(body.fn)
    return first + next(number for number, line in enumerate(lines) if text in line)


def forgotten(drive: Drive) -> str:
    """What the run says when it would have ended."""
    with pytest.raises(NeverAwaited) as caught:
        drive.finish()
    return str(caught.value)


@workflow
async def coroutine_of_a_step() -> int:
    double(1)  # forgotten
    return await double(2)


@workflow
async def coroutine_of_a_sleep() -> int:
    holdfast.sleep("1h")  # forgotten
    return await double(2)


@workflow
async def coroutine_of_a_call() -> int:
    holdfast.call("log", print, "x")  # type: ignore[unused-coroutine]  # forgotten
    return await double(2)


@workflow
async def pending_in_an_async_body() -> int:
    double.start(1)  # forgotten
    return await double(2)


@workflow
async def pending_of_a_def_step() -> int:
    triple.start(1)  # forgotten
    return await double(2)


@workflow
def pending_in_a_def_body() -> int:
    triple.start(1)  # forgotten
    return triple(2)


@workflow
async def held_in_a_variable() -> int:
    never = double(1)  # forgotten
    result = await double(2)
    del never
    return result


@workflow
async def tasks_of_a_gather() -> int:
    result = await double(2)
    asyncio.gather(double(3), double(4))  # forgotten
    return result


@workflow
async def task_of_a_step() -> int:
    result = await double(2)
    task = asyncio.create_task(double(3))  # forgotten
    return result + len(repr(task)[:0])


@workflow
async def task_of_a_map() -> int:
    result = await double(2)
    asyncio.ensure_future(holdfast.map(double, [3, 4]))  # forgotten  # noqa: RUF006  # that is the point
    return result


@workflow
async def before_going_on_anew() -> None:
    await double(2)
    holdfast.sleep("30d")  # forgotten
    holdfast.continue_as_new()


@workflow
async def before_going_on_anew_in_a_task_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(holdfast.sleep("1d"))
        double.start(2)  # forgotten
        await double(3)
        holdfast.continue_as_new()


@workflow
def pending_before_going_on_anew() -> None:
    triple.start(2)  # forgotten
    triple(3)
    holdfast.continue_as_new()


BODIES = [
    coroutine_of_a_step,
    coroutine_of_a_sleep,
    coroutine_of_a_call,
    pending_in_an_async_body,
    pending_of_a_def_step,
    pending_in_a_def_body,
    held_in_a_variable,
    tasks_of_a_gather,
    task_of_a_step,
    task_of_a_map,
    before_going_on_anew,
    before_going_on_anew_in_a_task_group,
    pending_before_going_on_anew,
]


@pytest.mark.parametrize("body", BODIES, ids=lambda one: one.name)
def test_a_forgotten_await_is_an_error_that_names_the_line(begin, body):
    assert f"test_never_awaited.py:{line_of(body)}" in forgotten(begin(body))


@pytest.mark.parametrize("body", BODIES, ids=lambda one: one.name)
def test_a_forgotten_await_does_not_end_the_run(begin, body):
    drive = begin(body)
    forgotten(drive)
    assert drive.ended is None


def test_a_forgotten_await_is_not_executed(begin):
    assert begin(coroutine_of_a_step).asked == ["double"]


def test_a_forgotten_await_gives_no_warning_of_its_own(begin, recwarn):
    drive = begin(coroutine_of_a_step)
    forgotten(drive)
    drive.close()
    assert [str(one.message) for one in recwarn] == []


def test_fixed_code_goes_on_where_the_await_was_forgotten(begin):
    @workflow(name="coroutine_of_a_step")
    async def fixed() -> int:
        later = double(1)
        return await double(2) + await later

    drive = begin(coroutine_of_a_step)
    drive.workflow = fixed
    drive.execution = drive.replay()
    assert drive.finish().check().result == 6


def test_every_forgotten_line_is_named(begin):
    @workflow
    async def body() -> int:
        double(1)  # first
        echo.start(1)  # second
        return await double(2)

    text = forgotten(begin(body))
    assert f":{line_of(body, '# first')}" in text
    assert f":{line_of(body, '# second')}" in text


def test_a_pending_that_ended_unseen_is_still_an_error(begin):
    drive = begin(pending_in_an_async_body)
    drive.complete("double")
    assert f":{line_of(pending_in_an_async_body)}" in forgotten(drive)


def test_a_pending_that_failed_unseen_is_still_an_error(begin):
    drive = begin(pending_in_an_async_body)
    drive.fail("double", ValueError("nobody looks"))
    assert f":{line_of(pending_in_an_async_body)}" in forgotten(drive)


@workflow
async def child() -> int:
    return 1


@workflow
async def child_in_an_async_body() -> int:
    child.start()  # forgotten
    return await double(2)


@workflow
def child_in_a_def_body() -> int:
    child.start()  # forgotten
    return triple(2)


@pytest.mark.parametrize("body", [child_in_an_async_body, child_in_a_def_body], ids=lambda one: one.name)
@pytest.mark.parametrize("error", [None, ValueError("nobody looks")], ids=["it completed", "it failed"])
def test_a_child_that_ended_unseen_is_an_error(begin, body, error):
    drive = begin(body)
    drive.child_ends("child", 1, error=error)
    assert f"test_never_awaited.py:{line_of(body)}" in forgotten(drive)


def test_fixed_code_sees_the_end_of_a_child_that_came_unseen(begin):
    @workflow(name="child_in_an_async_body")
    async def fixed() -> int:
        held = child.start()
        return await double(2) + await held

    drive = begin(child_in_an_async_body)
    drive.child_ends("child", 1)
    forgotten(drive)
    drive.workflow = fixed
    drive.execution = drive.replay()
    assert drive.finish().check().result == 5


def test_an_abandoned_child_that_ended_unseen_is_no_error(begin):
    @workflow
    async def body() -> int:
        child.options(on_parent_end="abandon").start()
        return await double(2)

    drive = begin(body)
    drive.child_ends("child", error=ValueError("nobody looks"))
    assert drive.finish().check().result == 4


def test_a_pending_that_lost_a_race_is_no_error(begin):
    @workflow
    async def body() -> int:
        one, two = double.start(1), double.start(2)
        done, _ = await asyncio.wait([one, two], return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()

    drive = begin(body)
    drive.complete("double:1")
    assert drive.check().result == 4


def test_a_pending_that_lost_a_race_is_cancelled(begin):
    @workflow
    async def body() -> int:
        one, two = double.start(1), double.start(2)
        done, _ = await asyncio.wait([one, two], return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()

    drive = begin(body)
    drive.complete("double:1")
    assert drive.withdrawn == ["double"]


def test_a_pending_that_was_cancelled_is_no_error(begin):
    @workflow
    async def body() -> int:
        one = double.start(1)
        one.cancel()
        return await double(2)

    assert begin(body).finish().check().result == 4


def test_a_pending_passed_on_to_gather_has_been_looked_at(begin):
    @workflow
    async def body() -> list[int]:
        return list(await asyncio.gather(double.start(1), double.start(2)))

    assert begin(body).finish().check().result == [2, 4]


@pytest.mark.parametrize(
    "look", [lambda one: blocking.gather(one), lambda one: blocking.wait([one])], ids=["gather", "wait"]
)
def test_a_pending_that_a_blocking_function_had_no_time_for_is_no_error(begin, look):
    @workflow
    async def body() -> str:
        try:
            async with asyncio.timeout(0):
                look(double.start(1))
        except TimeoutError:
            return "late"
        return "in time"

    assert begin(body).finish().check().result == "late"


def test_a_pending_looked_at_in_a_def_body_is_no_error(begin):
    @workflow
    def body() -> list[int]:
        one, two = triple.start(1), triple.start(2)
        done, _ = blocking.wait([one, two], return_when=asyncio.FIRST_COMPLETED)
        return [found.result() for found in done]

    drive = begin(body)
    drive.complete("triple:1")
    assert drive.check().result == [6]
