"""Bodies and steps that must type-check, and what is inferred of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type
from uuid import UUID

import holdfast
from holdfast import Pending, Retry, Worker, blocking, current_run, current_step, resource, step, workflow
from holdfast.define import AsyncStep, AsyncWorkflow, BlockingStep, BlockingWorkflow, Resource


@dataclass
class Order:
    number: int


@step
async def charge(card: str, cents: int = 0) -> str:
    return card


@step(retry=Retry(attempts=5, initial="1s", factor=2, max="60s", jitter=0.2), timeout="30s")
def render(order: Order, *, draft: bool = False) -> bytes:
    return b""


@step(name="ship", timeout=timedelta(seconds=5), record_args=True)
async def ship(order: Order) -> None: ...


def plain(a: int, b: str) -> float:
    return 0.5


async def slow(a: int) -> Order:
    return Order(a)


@workflow
async def checkout(order: Order) -> str:
    held = charge("4711", cents=5)
    assert_type(await held, str)
    awaitable: Coroutine[Any, Any, str] = charge("4711")
    assert_type(await awaitable, str)
    assert_type(await charge("4711"), str)
    assert_type(render(order, draft=True), bytes)
    assert_type(await charge.options(name="again", retry=Retry(attempts=1), timeout="5s")("4711"), str)
    assert_type(render.options(name="again")(order), bytes)
    pending = charge.start("4711", 5)
    assert_type(pending, Pending[str])
    assert_type(await pending, str)
    assert_type(await render.start(order), bytes)
    assert_type(await charge.options(name="again").start("4711"), str)
    both = await asyncio.gather(charge.start("4711"), render.start(order))
    assert_type(await asyncio.gather(charge("4711"), charge("4712")), tuple[str, str])
    assert_type(both, tuple[str, bytes])
    assert_type(await asyncio.gather(charge("4711"), holdfast.call("plain", plain, 1, "b")), tuple[str, float])
    done, _ = await asyncio.wait([charge.start("1"), charge.start("2")], return_when=asyncio.FIRST_COMPLETED)
    assert_type(done.pop().result(), str)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        task = group.create_task(charge("4711"))
    assert_type(task.result(), str)
    assert_type(await holdfast.call("plain", plain, 1, "b"), float)
    assert_type(await holdfast.call("slow", slow, 1, retry=Retry(attempts=1), timeout="5s"), Order)
    await holdfast.sleep("1h30m")
    await holdfast.sleep(timedelta(hours=1))
    await holdfast.sleep(0.5)
    await holdfast.sleep_until(datetime.now(UTC))
    assert_type(holdfast.now(), datetime)
    assert_type(holdfast.rng(), random.Random)
    assert_type(holdfast.uuid4(), UUID)
    assert_type(current_run().id, str)
    holdfast.logger.info("charged %s", 5)
    return await charge("4711")


@workflow(name="report", version="2", retry=Retry(attempts=2), deadline="1h", retention=None, queue="slow")
def report(order: Order, copies: int = 1) -> list[bytes]:
    assert_type(render(order), bytes)
    assert_type(render.start(order).result(), bytes)
    assert_type(charge.start("4711").result(), str)
    assert_type(blocking.gather(render.start(order), render.start(order)), list[bytes])
    assert_type(blocking.gather(render.start(order), charge.start("4711")), list[bytes | str])
    mixed = blocking.gather(render.start(order), charge.start("1"), render.start(order), charge.start("2"))
    assert_type(mixed, list[Any])
    told = blocking.gather(render.start(order), render.start(order), return_exceptions=True)
    assert_type(told, list[bytes | BaseException])
    done, rest = blocking.wait([charge.start("4711")], timeout="5s")
    assert_type(done, set[Pending[str]])
    assert_type(rest, set[Pending[str]])
    for one in blocking.as_completed([render.start(order)], timeout=5):
        assert_type(one, Pending[bytes])
    assert_type(blocking.call("plain", plain, 1, "b"), float)
    assert_type(blocking.call("slow", slow, 1, timeout="5s"), Order)
    blocking.sleep("1d")
    blocking.sleep_until(datetime.now(UTC))
    return [render(order)] * copies


def takes_any(
    a: AsyncWorkflow[..., str],
    b: BlockingWorkflow[..., list[bytes]],
    c: AsyncStep[..., str],
    d: BlockingStep[..., bytes],
) -> Callable[..., Any]:
    return c.fn


takes_any(checkout, report, charge, render)
assert_type(checkout.options(key="order-42", priority=5, tags={"shop": "north"}).name, str)


@step
def inside() -> None:
    me = current_step()
    assert_type(me.attempt, int)
    assert_type(me.idempotency_key, str)
    assert_type(me.cancelled, bool)
    assert_type(me.deadline, datetime | None)
    me.heartbeat({"share": 0.5})
    assert_type(pool(), Order)
    assert_type(secret(), str)


@resource
async def pool() -> AsyncIterator[Order]:
    yield Order(1)


@resource
def secret() -> Iterator[str]:
    yield "s"


assert_type(pool, Resource[Order])
Worker("sqlite:///:memory:", workflows=[checkout, report], resources=[pool, secret], lease="30s", concurrency=5)
assert_type(holdfast.run(checkout, Order(1)), str)
assert_type(holdfast.run(report, Order(1), copies=2), list[bytes])
assert_type(holdfast.run(checkout, Order(1), key="order-42"), str)


def passed_on(key: str | None, url: str | None, around: Callable[[holdfast.StepInfo], Any]) -> None:
    assert_type(holdfast.run(checkout, Order(1), key=key), str)
    assert_type(holdfast.run(checkout, Order(1), url=url), str)
    assert_type(holdfast.run(checkout, Order(1), namespace="north"), str)
    assert_type(holdfast.run(checkout, Order(1), resources=[pool, secret]), str)
    assert_type(holdfast.run(checkout, Order(1), middleware=[around]), str)
