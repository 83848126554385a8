"""Begin many things, so many at a time, and take in what each came to. An error calls off those under way."""

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
    """Begin the things in `todo` in order, `width` of them at a time, until none is left.

    `begin` is also given the number of the slot that the thing occupies while it is under way. `take` is given the
    finished future; it may add to `todo` or take from it, and an error that it raises ends everything. The order
    depends only on the order of the ends, so it is the same on replay.
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
                # A callback for each end: waiting for all of them anew after each end would be quadratic.
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
            # With a message, as asyncio cancels: nobody waits for what a child run would come to.
            left.cancel("the map has ended")
