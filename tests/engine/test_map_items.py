"""The items of one chunk of holdfast.map: how often they are tried, what they see, which failures are collected."""

from __future__ import annotations

import asyncio
import time
from contextvars import copy_context
from typing import Any

import pytest

from holdfast import Retry, current_step, step
from holdfast.define import StepInfo, async_chunk, blocking_chunk, current_scope


def a_chunk() -> StepInfo:
    return StepInfo("chunk", "chunk", 1, None, {})  # type: ignore[arg-type]


def inside(info: StepInfo, chunk: Any, items: list[int]) -> Any:
    """Executes `chunk` as the step that `info` describes, and returns its result."""
    context = copy_context()
    context.run(current_scope.set, info)
    return context.run(chunk, items)


def test_an_item_of_a_cancelled_chunk_is_not_tried_again():
    info, tries = a_chunk(), []

    @step(retry=Retry(attempts=5, initial=0))
    def flaky(n: int) -> None:
        tries.append(n)
        info.cancelled = True
        raise ValueError("no")

    inside(info, blocking_chunk(flaky, False, flaky.fn), [1, 2])
    assert tries == [1]


def test_an_item_sees_that_its_chunk_was_cancelled():
    info, seen = a_chunk(), []

    @step
    def looks(n: int) -> None:
        info.cancelled = True
        seen.append(current_step().cancelled)

    inside(info, blocking_chunk(looks, False, looks.fn), [1])
    assert seen == [True]


def test_an_item_sees_the_heartbeat_details_of_its_chunk():
    info, seen = a_chunk(), []
    info.heartbeat_details = {"done": 7}

    @step
    def looks(n: int) -> None:
        seen.append(current_step().heartbeat_details)

    inside(info, blocking_chunk(looks, False, looks.fn), [1])
    assert seen == [{"done": 7}]


def test_an_item_does_not_see_what_another_item_said_in_an_earlier_attempt_of_their_chunk():
    info, seen = a_chunk(), []
    info.heartbeat_details = {"done": 7}

    @step
    def looks(n: int) -> None:
        seen.append(current_step().heartbeat_details)

    inside(info, blocking_chunk(looks, False, looks.fn), [1, 2])
    assert seen == [None, None]


@pytest.mark.parametrize("undo", [None, lambda n: None])
def test_a_chunk_keeps_its_results_for_a_failure_only_if_its_step_has_a_compensation(undo):
    info = a_chunk()

    @step(compensate=undo)
    def kept(n: int) -> int:
        return n

    inside(info, blocking_chunk(kept, False, kept.fn), [1, 2])
    assert info.done == (None if undo is None else ([1, 2], {}))


async def test_a_timeout_error_raised_by_an_item_is_not_taken_for_the_timeout_of_its_step():
    @step(timeout="1h", retry=Retry(attempts=1))
    async def impatient(n: int) -> None:
        raise TimeoutError("the other side was slow")

    _, failures = await async_chunk(impatient, True, impatient.fn)([1])
    assert failures == {0: ("TimeoutError", "the other side was slow")}


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_item_is_tried_as_often_as_its_step_says(is_async):
    tries: list[int] = []

    def fails(n: int) -> None:
        tries.append(n)
        raise ValueError("no")

    async def fails_async(n: int) -> None:
        fails(n)

    made = step(retry=Retry(attempts=3, initial=0))(fails_async if is_async else fails)
    found = async_chunk(made, True, made.fn)([1, 2]) if is_async else blocking_chunk(made, True, made.fn)([1, 2])
    if is_async:
        await found
    assert tries == [1, 1, 1, 2, 2, 2]


def test_an_item_is_not_tried_for_longer_than_its_step_says():
    tries: list[int] = []

    @step(retry=Retry(attempts=3, initial=0, within=0.000_001))
    def slow(n: int) -> None:
        tries.append(n)
        ends = time.monotonic() + 0.000_1
        while time.monotonic() < ends:
            pass
        raise ValueError("no")

    blocking_chunk(slow, True, slow.fn)([1, 2])
    assert tries == [1, 2]


def test_a_failure_whose_message_can_not_be_printed_is_collected():
    class Mute(Exception):
        def __str__(self) -> str:
            raise AttributeError("response")

    @step(retry=Retry(attempts=1))
    def mute(n: int) -> None:
        raise Mute

    results, failures = blocking_chunk(mute, True, mute.fn)([1])
    assert (results, failures[0][0]) == ([None], "Mute")


@pytest.mark.parametrize("error", [SystemExit(2), asyncio.CancelledError("stray")], ids=repr)
async def test_a_base_exception_of_an_item_is_collected_and_not_tried_again(error):
    tries: list[int] = []

    def leaves(n: int) -> int:
        tries.append(n)
        if n == 1:
            raise error
        return n

    async def leaves_async(n: int) -> int:
        return leaves(n)

    one, other = step(leaves), step(leaves_async)
    timed = step(timeout="1h")(leaves)
    expected = [None, 2], {0: (type(error).__name__, str(error))}
    assert blocking_chunk(one, True, one.fn)([1, 2]) == expected
    assert blocking_chunk(timed, True, timed.fn)([1, 2]) == expected
    assert await async_chunk(other, True, other.fn)([1, 2]) == expected
    assert tries == [1, 2, 1, 2, 1, 2]


async def test_a_cancel_of_the_chunk_is_no_failure_of_an_item():
    begun = asyncio.Event()

    @step
    async def waits(n: int) -> None:
        begun.set()
        await asyncio.Event().wait()

    chunk = asyncio.create_task(async_chunk(waits, True, waits.fn)([1, 2]))
    await begun.wait()
    chunk.cancel()
    with pytest.raises(asyncio.CancelledError):
        await chunk


def test_a_map_takes_the_none_that_a_call_of_its_step_takes():
    @step
    def told(n: int = None) -> str:  # type: ignore[assignment]  # noqa: RUF013  # as many write it
        return repr(n)

    @step
    def counted(n: int) -> str:
        return repr(n)

    assert (told.chunk_hints()["items"], counted.chunk_hints()["items"]) == (list[int | None], list[int])
