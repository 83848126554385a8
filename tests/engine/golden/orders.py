"""The sample workflows whose journals are kept. Changing what they do is changing what the stored journals mean."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from uuid import UUID

import holdfast
from holdfast import Retry, blocking, now, rng, sleep, step, uuid4, workflow


class OutOfStock(Exception):
    """An error of a step, which comes back as its own class."""


@dataclass
class Order:
    number: int
    total: Decimal
    placed_at: datetime
    lines: tuple[str, ...] = ()
    notes: dict[int, str] = field(default_factory=dict)


@step
async def charge(order: Order, cents: Decimal) -> UUID:
    return UUID(int=order.number)


@step(record_args=True)
def pack(line: str) -> bytes:
    return line.encode()


@step(retry=Retry(attempts=3))
async def reserve(line: str) -> set[str]:
    raise OutOfStock(line)


@workflow
async def checkout(order: Order) -> list[str]:
    """Steps of both colours in sequence and at once, a failure that is caught, timers, and the run's own dice."""
    seen = [str(await charge(order, order.total))]
    parcels = await asyncio.gather(*(pack.start(line) for line in order.lines))
    seen += [parcel.decode() for parcel in parcels]
    try:
        await reserve(order.lines[0])
    except OutOfStock as error:
        seen.append(f"out of stock: {error}")
    await sleep("1d")
    seen += [str(rng().randint(1, 6)), str(uuid4()), now().isoformat()]
    return seen


@workflow
async def race(names: list[str]) -> str:
    """The first of several, a timeout, and a step after it."""
    pendings = {charge.options(name=name).start(sample(), Decimal(1)): name for name in names}
    done, _ = await asyncio.wait(pendings, return_when=asyncio.FIRST_COMPLETED)
    winner = pendings[done.pop()]
    try:
        async with asyncio.timeout(3600):
            await reserve(winner)
    except TimeoutError:
        winner += " alone"
    return winner


@workflow(retry=Retry(attempts=2, initial="1m", jitter=0))
def report(count: int) -> list[str]:
    """A blocking body that is tried again as a whole and then cancelled, with a cleanup."""
    try:
        pages = blocking.gather(*(pack.start(f"page {n}") for n in range(count)))
        holdfast.blocking.call("deliver", str.upper, "all")
        blocking.sleep("1h")
        return [page.decode() for page in pages]
    finally:
        pack("sweep")


def sample() -> Order:
    return Order(
        7, Decimal("19.90"), datetime.fromisoformat("2026-01-02T03:04:05+00:00"), ("ink", "paper"), {1: "gift"}
    )
