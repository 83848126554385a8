"""Threads for `def` steps keep nothing of what they did."""

from __future__ import annotations

import asyncio
import gc
import weakref

from holdfast.worker.threads import Threads
from tests.worker.stage import until

made: list[weakref.ref[Exception]] = []


class Noted(Exception):
    def __init__(self) -> None:
        made.append(weakref.ref(self))


class Large:
    """An argument that one would not want to be kept."""


async def test_an_error_and_the_frames_it_came_through_are_gone_without_the_collector():
    def fail() -> None:
        raise Noted

    threads = Threads()
    gc.disable()
    try:
        for _ in range(3):
            try:
                await threads.call(fail, (), {})
            except Noted:
                pass
        await until(lambda: all(one() is None for one in made))
    finally:
        gc.enable()
        threads.close()


async def test_a_thread_that_waits_for_work_holds_nothing_of_the_last_call():
    threads = Threads()
    large = Large()
    left = weakref.ref(large)
    await threads.call(id, (large,), {})
    del large
    await until(lambda: left() is None)
    threads.close()


async def test_a_call_that_nobody_waits_for_ends_all_the_same():
    threads = Threads()
    go_on, ended = asyncio.Event(), []
    loop = asyncio.get_running_loop()

    def work() -> None:
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
        ended.append(1)

    calling = asyncio.ensure_future(threads.call(work, (), {}))
    await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait([calling])
    go_on.set()
    await until(lambda: ended)
    assert await threads.call(int, ("7",), {}) == 7
    threads.close()
