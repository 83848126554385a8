"""Begin many things, so many at a time, and take in what each came to. Whatever ends it calls off the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


async def fan_out(
    count: int,
    width: int,
    begin: Callable[[int, int], asyncio.Future[Any]],
    take: Callable[[int, asyncio.Future[Any]], None],
) -> None:
    """Begin `count` things in order, `width` of them at a time.

    `begin` gets a place and the number of the slot that it has while it is under way; `take` gets the place and the
    future that is done, and what it raises ends everything. The order follows from that of the ends alone, so it is the
    same on replay.
    """
    under_way: dict[asyncio.Future[Any], tuple[int, int]] = {}
    free = list(range(min(width, count) - 1, -1, -1))
    place = 0
    try:
        while place < count or under_way:
            while place < count and free:
                slot = free.pop()
                under_way[begin(place, slot)] = place, slot
                place += 1
            done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            for future in sorted(done, key=lambda one: under_way[one]):
                ended, slot = under_way.pop(future)
                free.append(slot)
                take(ended, future)
    finally:
        for one in under_way:
            one.cancel()
