"""Workflows that are observed, and how long to wait for them."""

from __future__ import annotations

import holdfast
from holdfast import Retry, step, workflow

PATIENCE = "60s"


@step
async def double(number: int) -> int:
    return number * 2


@step
def half(number: int) -> int:
    return number // 2


@step(retry=Retry(attempts=2, initial=0))
async def broken() -> None:
    raise LookupError("nothing there")


@workflow(version="7")
async def both(number: int) -> int:
    return half(await double(number))


@workflow
async def fails() -> None:
    await broken()


@workflow
async def parent(number: int) -> int:
    return await both(number)


@workflow
async def waits() -> str:
    await double(1)
    return str(await holdfast.wait_for_signal("go"))


@workflow
async def hears() -> None:
    await holdfast.wait_for_event("paid")


@workflow
async def resumed() -> None:
    hook = holdfast.hook()
    holdfast.set_value("token", hook.token)
    await hook.wait()


@workflow
async def tells(run_id: str) -> None:
    holdfast.signal(run_id, "go")


@workflow(on_event="begin")
async def begun(number: int) -> int:
    return await double(number)


@workflow
async def counts(number: int) -> int:
    await double(number)
    if number:
        counts.continue_as_new(number - 1)
    return number
