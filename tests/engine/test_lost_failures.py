"""The failure of a task that nobody awaits is reported when the run ends: once, live, and without other effect."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Retry, sleep, workflow
from tests.engine.samples import double


async def fail() -> None:
    raise KeyError("lost")


def let_fail() -> asyncio.Task[None]:
    return asyncio.create_task(fail())


async def fail_by_a_step() -> None:
    await double(1)


@pytest.mark.parametrize("is_held", [True, False], ids=["held by the body", "held by nobody"])
def test_a_task_that_failed_is_reported_with_its_run_and_where_it_failed(begin, caplog, is_held):
    @workflow
    async def body() -> str:
        task = asyncio.create_task(fail(), name="mail")
        if not is_held:
            del task
        await sleep(1)
        return "ok"

    drive = begin(body).finish()
    assert drive.result == "ok"
    [record] = caplog.records
    assert (record.name, record.levelname) == ("holdfast.engine", "ERROR")
    assert record.getMessage().startswith("<run run-1 of body version 1>: the exception of its task 'mail' was never")
    assert record.exc_info is not None
    _, error, traceback = record.exc_info
    assert repr(error) == "KeyError('lost')"
    assert traceback is not None


def test_a_step_that_failed_in_a_task_is_reported_however_the_body_ends(begin, caplog):
    @workflow
    async def body() -> None:
        task = asyncio.create_task(fail_by_a_step())
        await asyncio.wait([task])
        raise ValueError("for another reason")

    drive = begin(body)
    drive.fail("double", ConnectionError("the line is dead"))
    assert repr(drive.error) == "ValueError('for another reason')"
    [record] = caplog.records
    assert record.exc_info is not None
    assert repr(record.exc_info[1]) == "ConnectionError('the line is dead')"


def test_a_failed_task_that_was_awaited_is_not_reported(begin, caplog):
    @workflow
    async def body() -> str:
        tasks = [asyncio.create_task(fail()) for _ in range(3)]
        await asyncio.gather(tasks[0], return_exceptions=True)
        try:
            await tasks[1]
        except KeyError:
            pass
        return repr(tasks[2].exception())

    assert begin(body).finish().result == "KeyError('lost')"
    assert caplog.records == []


def test_tasks_that_are_cancelled_with_the_run_are_not_reported(begin, caplog):
    @workflow
    async def body() -> None:
        asyncio.create_task(fail_by_a_step()).cancel()
        task = asyncio.create_task(fail_by_a_step())
        await asyncio.wait([task])

    assert begin(body).cancel().ended.status == "cancelled"
    assert caplog.records == []


def test_a_body_s_own_failure_is_not_reported_as_lost(begin, caplog):
    @workflow
    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    assert begin(body).status == "failed"
    assert caplog.records == []


def test_a_failed_task_is_reported_once_although_its_body_was_put_away_meanwhile(begin, caplog):
    @workflow
    async def body() -> None:
        let_fail()
        await double(1)
        # So many tasks that those which have ended are forgotten.
        await asyncio.gather(*(double(n) for n in range(40)))

    drive = begin(body)
    drive.execution.put_away()
    drive.execution = drive.replay()
    drive.complete("double")
    drive.execution.put_away()
    drive.execution = drive.replay()
    assert caplog.records == []
    drive.finish()
    drive.execution.put_away()
    assert len(caplog.records) == 1


def test_a_task_that_failed_among_many_is_reported(begin, caplog):
    @workflow
    async def body() -> None:
        for _ in range(60):
            let_fail()
            await sleep(1)

    begin(body).finish()
    assert len(caplog.records) == 60


def test_a_run_that_is_tried_again_reports_the_unseen_failures_of_its_last_try(begin, caplog):
    @workflow(retry=Retry(attempts=2, initial=0))
    async def body() -> None:
        let_fail()
        await double(1)

    drive = begin(body)
    drive.fail("double", ValueError("no"))
    assert caplog.records == []
    drive.run_again()
    drive.complete("double")
    assert len(caplog.records) == 1
