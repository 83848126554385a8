"""The workflows that are measured. Each is made for one measurement, and reports through a callback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import holdfast
from holdfast import blocking
from holdfast.define import Workflow


def four_steps(done: Callable[[], None], pause: float = 0.0) -> Workflow[[int], int]:
    """Four steps, empty or with a pause of so many seconds. The last of each run calls `done`."""

    @holdfast.step(name="reserve")
    async def reserve(number: int) -> int:
        if pause:
            await asyncio.sleep(pause)
        return number + 1

    @holdfast.step(name="charge")
    async def charge(number: int) -> int:
        if pause:
            await asyncio.sleep(pause)
        return number + 1

    @holdfast.step(name="pack")
    async def pack(number: int) -> int:
        if pause:
            await asyncio.sleep(pause)
        return number + 1

    @holdfast.step(name="ship")
    async def ship(number: int) -> int:
        if pause:
            await asyncio.sleep(pause)
        done()
        return number + 1

    @holdfast.workflow(name="four_steps")
    async def body(number: int) -> int:
        number = await reserve(number)
        number = await charge(number)
        number = await pack(number)
        return await ship(number)

    return body


def many_steps(begun: Callable[[], None], name: str = "many_steps") -> Workflow[[int], int]:
    """As many steps as its input says, one after another. Each calls `begun`."""

    @holdfast.step(name="advance")
    async def advance(number: int) -> int:
        begun()
        return number + 1

    @holdfast.workflow(name=name, journal_limit=1_000_000)
    async def body(count: int) -> int:
        number = 0
        while number < count:
            number = await advance(number)
        return number

    return body


def one_step(begun: Callable[[int], None]) -> Workflow[[int], int]:
    """One step, which reports that it has begun, and in which run."""

    @holdfast.step(name="begin")
    async def begin(number: int) -> int:
        begun(number)
        return number

    @holdfast.workflow(name="one_step")
    async def body(number: int) -> int:
        return await begin(number)

    return body


def sleeper(*, is_async: bool) -> Workflow[[int], Any]:
    """One step, and then a wait longer than any measurement."""

    @holdfast.step(name="touch")
    async def touch(number: int) -> int:
        return number + 1

    @holdfast.step(name="touch")
    def touch_in_thread(number: int) -> int:
        return number + 1

    @holdfast.workflow(name="sleeper")
    async def awaiting(number: int) -> int:
        found = await touch(number)
        await holdfast.sleep("1h")
        return found

    @holdfast.workflow(name="sleeper")
    def blocked(number: int) -> int:
        found = touch_in_thread(number)
        blocking.sleep("1h")
        return found

    return awaiting if is_async else blocked
