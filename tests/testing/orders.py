"""What the tests of the test kit share: a workflow with a step that must be stubbed, a timer, and one that need not."""

from __future__ import annotations

from dataclasses import dataclass

import holdfast
from holdfast import Retry, step, workflow


@dataclass
class Order:
    card: str
    cents: int


@step
async def charge(card: str, cents: int) -> str:
    raise AssertionError("a card was charged in a test")


@step(retry=Retry(attempts=3, initial="10s", factor=2), timeout="30s")
def ship(order: Order, payment: str) -> str:
    return f"{order.card} paid by {payment}"


@workflow
async def checkout(order: Order) -> str:
    payment = await charge(order.card, order.cents)
    await holdfast.sleep("1d")
    return ship(order, payment)


ORDER = Order("4711", 100)
