"""Steps and workflows that many tests use."""

from __future__ import annotations

from holdfast import step, workflow


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
