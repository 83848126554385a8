"""Fans: one publish that wakes very many runs; a publish while as many wait for something else; and many children.

Each is compared with a smaller one of its kind, to show what grows faster than the number of runs.
"""

from __future__ import annotations

import asyncio
import time

import holdfast
from holdfast import AsyncClient, Worker
from holdfast.define import Workflow

from .databases import Engine, Place, refuse_failures, until
from .figures import Figure, at_most, compared, ratio_at_most
from .scales import Scale

_BATCH = 2_000
_PUBLISHED = 30


def measure(scale: Scale, engine: Engine) -> list[Figure]:
    return asyncio.run(_measure(scale, engine))


async def _measure(scale: Scale, engine: Engine) -> list[Figure]:
    few, many = scale.fans
    woken = [await _wake(engine, count) for count in (few, many)]
    free, crowded = await _publish(engine, many)
    begun = [await _begin_children(engine, count) for count in (few, many)]
    return [
        compared(
            f"{many:,} waiting runs woken by one publish, and ended", "s", woken[1:], f"{few:,} runs", woken[:1],
            at_most(5, "s"),
        ),
        compared(
            f"a publish, {many:,} runs waiting for others", "ms", crowded, "nobody waiting", free, ratio_at_most(2)
        ),
        compared(
            f"{many:,} children begun and waited for, a child", "ms", begun[1:], f"with {few:,}", begun[:1],
            ratio_at_most(2),
        ),
    ]  # fmt: skip


async def _wake(engine: Engine, count: int) -> float:
    """Seconds from the publish to the end of the last run."""
    place = await engine.place()
    store = await place.opened()
    client = AsyncClient(store)
    body = _waiter()
    async with Worker(store, workflows=[body], concurrency=500):
        await _start_waiting(client, place, body, count)
        began = time.perf_counter()
        await client.publish("go", {"to": "all"})
        await until(place, "SELECT NOT EXISTS (SELECT 1 FROM runs WHERE ended_at IS NULL)")
        took = time.perf_counter() - began
    await _leave(client, place)
    return took


async def _publish(engine: Engine, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds of publishes, in turns: to a database where nobody waits, and where many wait for other events."""
    places = [await engine.place() for _ in range(2)]
    stores = [await place.opened() for place in places]
    clients = [AsyncClient(store) for store in stores]
    body = _waiter()
    async with Worker(stores[1], workflows=[body], concurrency=500):
        await _start_waiting(clients[1], places[1], body, count)
    took: list[list[float]] = [[], []]
    for number in range(_PUBLISHED):
        for client, found in zip(clients, took, strict=True):
            began = time.perf_counter()
            await client.publish("other", {"number": number})
            found.append((time.perf_counter() - began) * 1_000)
    for client, place in zip(clients, places, strict=True):
        await _leave(client, place)
    return took[0], took[1]


async def _begin_children(engine: Engine, count: int) -> float:
    """Milliseconds a child."""
    place = await engine.place()
    store = await place.opened()
    client = AsyncClient(store)
    parent, child = _family()
    async with Worker(store, workflows=[parent, child], concurrency=500):
        began = time.perf_counter()
        run = await client.start(parent, count)
        await run.result(timeout=300)
        took = time.perf_counter() - began
    await refuse_failures(place)
    await _leave(client, place)
    return took * 1_000 / count


async def _start_waiting(client: AsyncClient, place: Place, body: Workflow[[int], int], count: int) -> None:
    for first in range(0, count, _BATCH):
        await client.start_many(body, [(number,) for number in range(first, min(first + _BATCH, count))])
    await until(place, f"SELECT count(*) = {count} FROM waits")


async def _leave(client: AsyncClient, place: Place) -> None:
    await client.close()
    await place.forget()


def _waiter() -> Workflow[[int], int]:
    @holdfast.workflow(name="waiter")
    async def body(number: int) -> int:
        await holdfast.wait_for_event("go")
        return number

    return body


def _family() -> tuple[Workflow[[int], int], Workflow[[int], int]]:
    @holdfast.workflow(name="child")
    async def child(number: int) -> int:
        return number

    @holdfast.workflow(name="parent", journal_limit=1_000_000)
    async def parent(count: int) -> int:
        return sum(await asyncio.gather(*(child.start(number) for number in range(count))))

    return parent, child
