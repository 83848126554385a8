"""Steps and workflows that many tests use."""

from __future__ import annotations

import threading

from holdfast import current_step, sleep, step, workflow
from holdfast.define import Step, Workflow


@step
async def nothing() -> None: ...


@step
async def add(a: int, b: int) -> int:
    return a + b


@workflow
async def chain(n: int) -> int:
    """So many steps, one after another."""
    total = 0
    for k in range(n):
        total = await add(total, k)
    return total


@workflow
async def ready() -> str:
    """One that ends where it begins."""
    return "ready"


def names_ready() -> object:
    """A function that is neither, and names one."""
    return ready


def refunding(effects: list[str]) -> Workflow[[], None]:
    """One that sleeps for a year and has a step in its `finally`, which notes that it was executed."""

    @step
    async def refund() -> None:
        effects.append("refunded")

    @workflow(name="refunding")
    async def body() -> None:
        try:
            await sleep("365d")
        finally:
            await refund()

    return body


def stubborn(begun: list[int], told: threading.Event) -> Step[[], int]:
    """A `def` step that ends the first time when it is told that nobody wants it, and later at once."""

    @step(name="stubborn")
    def stays() -> int:
        me = current_step()
        begun.append(1)
        while len(begun) == 1 and not me.cancelled:
            threading.Event().wait(0.001)
        if me.cancelled:
            told.set()
        return len(begun)

    return stays
