"""Workflows that go on in others: they count by steps, or add up what they are sent."""

from __future__ import annotations

import holdfast
from holdfast import step, workflow

executed: dict[str, int] = {}


@step
async def count(n: int) -> int:
    executed[holdfast.current_step().idempotency_key] = n
    return n + 1


@workflow
async def counting(n: int, end: int) -> int:
    n = await count(n)
    if n < end:
        counting.continue_as_new(n, end)
    return n


@workflow
async def summing(total: int, left: int) -> int:
    if left == 0:
        return total
    total += await holdfast.wait_for_signal("add", type=int)
    summing.continue_as_new(total, left - 1)
