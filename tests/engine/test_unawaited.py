"""Coroutines that are no durable calls, asyncio's own and those of the user's functions, are not skipped in silence."""

from __future__ import annotations

import _thread
import asyncio
import queue
import sys
import warnings
from typing import Any

import pytest

from holdfast import workflow
from tests.engine.drive import note
from tests.engine.samples import double, triple
from tests.engine.test_never_awaited import forgotten, line_of


async def doubled(n: int) -> int:
    return await double(n)


@workflow
async def sleep_of_asyncio() -> int:
    asyncio.sleep(3600)  # type: ignore[unused-coroutine]  # forgotten
    return await double(2)


@workflow
async def wait_for_of_asyncio() -> int:
    asyncio.wait_for(asyncio.sleep(1), 5)  # type: ignore[unused-coroutine]  # forgotten
    return await double(2)


@workflow
async def event_of_asyncio() -> int:
    event = asyncio.Event()
    event.wait()  # type: ignore[unused-coroutine]  # forgotten
    return await double(2)


@workflow
async def function_of_the_user_s() -> int:
    doubled(1)  # type: ignore[unused-coroutine]  # forgotten
    return await double(2)


@workflow
async def in_a_task() -> int:
    async def task() -> int:
        asyncio.sleep(3600)  # type: ignore[unused-coroutine]  # forgotten
        return await double(2)

    return await asyncio.create_task(task())


@workflow
def in_a_def_body() -> int:
    asyncio.sleep(3600)  # type: ignore[unused-coroutine]  # forgotten
    return triple(2)


BODIES = [
    sleep_of_asyncio,
    wait_for_of_asyncio,
    event_of_asyncio,
    function_of_the_user_s,
    in_a_task,
    in_a_def_body,
]


@pytest.mark.parametrize("body", BODIES, ids=lambda one: one.name)
def test_a_plain_coroutine_without_an_await_is_an_error_that_names_the_line(begin, body, recwarn):
    drive = begin(body)
    assert f"test_unawaited.py:{line_of(body)}" in forgotten(drive)
    assert drive.ended is None
    drive.close()
    assert [str(one.message) for one in recwarn] == []


def test_fixed_code_goes_on_where_a_sleep_was_not_awaited(begin):
    @workflow(name="sleep_of_asyncio")
    async def fixed() -> int:
        return await double(2)

    drive = begin(sleep_of_asyncio)
    drive.workflow = fixed
    drive.execution = drive.replay()
    assert drive.finish().check().result == 4


def test_a_body_that_fails_keeps_its_own_error_despite_a_forgotten_await(begin):
    @workflow
    async def body() -> None:
        asyncio.sleep(3600)  # type: ignore[unused-coroutine]
        await double(2)
        raise ValueError("its own")

    assert begin(body).finish().ended.status == "failed"


@pytest.mark.filterwarnings("ignore:coroutine 'sleep' was never awaited")
def test_a_coroutine_given_to_a_task_that_was_cancelled_before_it_began_is_no_error(begin):
    @workflow
    async def body() -> int:
        task = asyncio.create_task(asyncio.wait_for(asyncio.sleep(1), 5))
        task.cancel()
        note((await asyncio.wait([task]))[0] == {task})
        return await double(2)

    assert begin(body).finish().check().result == 4


@pytest.mark.filterwarnings("ignore:coroutine 'doubled' was never awaited")
def test_a_forgotten_await_outside_a_body_gets_the_warning_of_python():
    with pytest.warns(RuntimeWarning, match="doubled"):
        doubled(1)  # type: ignore[unused-coroutine]


@pytest.mark.filterwarnings("always:coroutine 'doubled' was never awaited")
def test_a_forgotten_await_in_a_thread_without_python_frames_gets_the_warning_of_python(begin, monkeypatch):
    begin(function_of_the_user_s)
    said: queue.SimpleQueue[str] = queue.SimpleQueue()
    monkeypatch.setattr(sys, "unraisablehook", lambda failed: said.put(str(failed.exc_value)))
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: said.put(str(message)))
    # The thread begins with a function that is not written in Python, and ends by throwing its argument away.
    _thread.start_new_thread(id, (doubled(1),))
    assert said.get(timeout=30) == "coroutine 'doubled' was never awaited"


def _kept(value: Any) -> Any:
    return value


def test_a_coroutine_that_is_awaited_later_is_no_error(begin):
    @workflow
    async def body() -> int:
        later = _kept(doubled(1))
        return await double(2) + await later

    assert begin(body).finish().check().result == 6


def test_a_body_that_is_put_away_is_not_warned_of_a_coroutine_that_it_has_not_awaited_yet(begin, recwarn):
    @workflow
    async def body() -> int:
        later = _kept(doubled(1))
        return await double(2) + await later

    begin(body).close()
    assert [str(one.message) for one in recwarn] == []


def test_a_body_that_is_put_away_is_not_warned_of_an_await_in_its_cleanup(begin, recwarn):
    @workflow
    async def body() -> None:
        try:
            await double(2)
        finally:
            await asyncio.gather(doubled(1), doubled(2))

    begin(body).close()
    assert [str(one.message) for one in recwarn] == []
