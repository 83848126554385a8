"""Payments, what they leave behind outside, and what assert_durable says about a workflow that is not."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast import current_step, step, workflow
from holdfast.testing import assert_durable

sent: list[str] = []
paid: dict[str, int] = {}


@step
async def pay(cents: int) -> str:
    paid[current_step().idempotency_key] = cents
    return f"receipt {cents}"


@step
def mail(text: str) -> None:
    sent.append(text)


@workflow
async def paying(cents: int) -> str:
    first = await pay(cents)
    await holdfast.sleep("30d")
    rest = await asyncio.gather(pay(1), pay(2))
    return ", ".join([first, *rest, str(holdfast.now()), str(holdfast.uuid4())])


def broken(*args, **kwargs) -> str:
    with pytest.raises(AssertionError) as raised:
        assert_durable(*args, **kwargs)
    return str(raised.value)
