"""Durable calls on either side of `or` and `and`: what becomes of the whole decides. Nothing here is ever executed."""

import asyncio

from holdfast import step, workflow


@step
async def charge(card: str) -> str:
    return card


@step
def render(value: object) -> str:
    return str(value)


@workflow
async def awaited(card: str, cached: asyncio.Future[str] | None, ready: bool) -> object:
    first = await (cached or charge(card))
    asked = cached or charge(card)
    if not ready:
        await asyncio.gather(cached or charge(card), *(cached or charge(one) for one in card))
    waiting = [cached or charge(one) for one in card]
    tried = await (cached or charge(card) or charge("x"))  # hazard: await
    return [first, await asked, [await one for one in waiting], tried]


@workflow
async def forgotten(card: str, cached: str | None, ready: bool) -> str:
    ready and charge(card)  # hazard: await
    cached or charge(card)  # hazard: await
    if ready and charge(card):  # hazard: await
        render(cached or charge(card))  # hazard: await
    told = charge(card) or "nothing"  # hazard: await
    held = cached or charge(card)  # hazard: await
    print(f"{told} {cached or charge(card)}")  # hazard: await
    return cached or charge(card)  # hazard: await
