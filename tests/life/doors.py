"""Runs that fail while a door is shut, and one that waits to be told."""

from __future__ import annotations

from typing import Any

import holdfast
from holdfast import Retry, step, workflow

is_open = {"door": False}


@step
async def prepare(n: int) -> int:
    return n + 1


@step(retry=Retry(attempts=1))
async def enter(n: int) -> str:
    if not is_open["door"]:
        raise ConnectionError("the door is shut")
    return f"in {n}"


@step
async def leave(what: str) -> str:
    return f"{what}, out"


@workflow
async def visiting(n: int) -> str:
    number = await prepare(n)
    await holdfast.sleep("1h")
    return await leave(await enter(number))


@workflow
async def knocking(n: int) -> str:
    return await leave(await enter(await prepare(n)))


@workflow
async def told() -> Any:
    return await holdfast.wait_for_signal("go")
