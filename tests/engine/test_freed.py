"""A run that has ended is freed when its body is put away: nothing of it waits for the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

import holdfast
from holdfast import workflow
from tests.engine.drive import Drive
from tests.engine.samples import double, triple


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def is_gone(drive: Drive) -> bool:
    """Whether nothing is left of a run when its worker lets go of it."""
    seen = weakref.ref(drive.execution.run)
    drive.close()
    vars(drive).clear()
    return seen() is None


@workflow
async def calling() -> int:
    return await double(1)


@workflow
async def sleeping() -> None:
    await holdfast.sleep("1h")


@workflow
async def waiting() -> object:
    return await holdfast.wait_for_signal("go", timeout="1h", default=None)


@workflow
async def hooking() -> str:
    return holdfast.hook().token


@workflow
async def expecting() -> None:
    hook = holdfast.hook(expires="1h")
    try:
        await hook.wait()
    except TimeoutError:
        return


@workflow
def expecting_in_a_def_body() -> None:
    hook = holdfast.blocking.hook(expires="1h")
    try:
        hook.wait()
    except TimeoutError:
        return


@workflow
async def giving_up() -> None:
    try:
        async with asyncio.timeout(1):
            await holdfast.sleep("1h")
    except TimeoutError:
        return


@workflow
async def blocking() -> None:
    try:
        triple(1)
    except ValueError:
        return


@workflow
async def undoing() -> None:
    holdfast.compensate(double, 1)
    raise ValueError


@pytest.mark.parametrize(
    ("body", "drive"),
    [
        pytest.param(calling, lambda run: run.complete("double"), id="a step completed"),
        pytest.param(calling, lambda run: run.fail("double", ValueError()), id="a step failed"),
        pytest.param(sleeping, lambda run: run.fire(), id="slept"),
        pytest.param(waiting, lambda run: run.fire(), id="timed out"),
        pytest.param(waiting, lambda run: run.signal("go"), id="told"),
        pytest.param(hooking, lambda run: None, id="a hook is open"),
        pytest.param(expecting, lambda run: run.fire(), id="a hook expired"),
        pytest.param(expecting_in_a_def_body, lambda run: run.fire(), id="a hook of a def body expired"),
        pytest.param(giving_up, lambda run: run.fire(), id="a timer called off"),
        pytest.param(blocking, lambda run: run.fail("triple", ValueError()), id="a def step failed"),
        pytest.param(undoing, lambda run: run.finish(), id="undone"),
    ],
)
def test_a_run_that_has_ended_is_freed_without_the_garbage_collector(body, drive):
    run = Drive(body)
    drive(run)
    assert is_gone(run)
