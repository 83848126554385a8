"""Begin many things, so many at a time, and take in what each came to. Whatever ends it calls off the others."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def fan_out(
    todo: deque[T],
    width: int,
    begin: Callable[[T, int], asyncio.Future[Any]],
    take: Callable[[T, asyncio.Future[Any]], None],
) -> None:
    """Begin what there is to do in order, `width` of it at a time, until nothing is left.

    `begin` also gets the number of the slot that a thing has while it is under way. `take` gets it with the future that
    is done, may add to what there is to do or take from it, and what it raises ends everything. The order follows from
    that of the ends alone, so it is the same on replay.
    """
    under_way: dict[asyncio.Future[Any], tuple[T, int]] = {}
    free = list(range(min(width, len(todo)) - 1, -1, -1))
    ended: deque[asyncio.Future[Any]] = deque()
    waiting: asyncio.Future[None] | None = None

    def end(future: asyncio.Future[Any]) -> None:
        ended.append(future)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    try:
        while todo or under_way:
            while todo and free:
                one, slot = todo.popleft(), free.pop()
                begun = begin(one, slot)
                under_way[begun] = one, slot
                # Told of each end by itself: to wait for all of them anew after each would be quadratic.
                begun.add_done_callback(end)
            if not ended:
                waiting = asyncio.get_running_loop().create_future()
                await waiting
            while ended:
                done = ended.popleft()
                one, slot = under_way.pop(done)
                free.append(slot)
                take(one, done)
    finally:
        for left in under_way:
            # With a word, as asyncio does it: nobody waits for what a child run would come to.
            left.cancel("the map has ended")
