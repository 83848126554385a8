"""Begin many things, so many at a time, and take in what each came to. Whatever ends it calls off the others."""

from __future__ import annotations

import asyncio
from collections import deque
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
    ended: deque[asyncio.Future[Any]] = deque()
    waiting: asyncio.Future[None] | None = None

    def end(future: asyncio.Future[Any]) -> None:
        ended.append(future)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    place = 0
    try:
        while place < count or under_way:
            while place < count and free:
                slot = free.pop()
                begun = begin(place, slot)
                under_way[begun] = place, slot
                # Told of each end by itself: to wait for all of them anew after each would be quadratic.
                begun.add_done_callback(end)
                place += 1
            if not ended:
                waiting = asyncio.get_running_loop().create_future()
                await waiting
            while ended:
                done = ended.popleft()
                was, slot = under_way.pop(done)
                free.append(slot)
                take(was, done)
    finally:
        for one in under_way:
            one.cancel()
