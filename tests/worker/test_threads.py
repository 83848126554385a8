"""Threads for `def` steps keep nothing of what they did, and those of a loop keep no process from ending."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref

import pytest

from holdfast.worker import LoopThreads
from holdfast.worker.threads import Threads
from tests.worker.stage import PATIENCE, until

made: list[weakref.ref[Exception]] = []


class Noted(Exception):
    def __init__(self) -> None:
        made.append(weakref.ref(self))


class Large:
    """An argument that one would not want to be kept."""


async def test_an_error_of_a_thread_and_its_frames_are_freed_without_the_garbage_collector():
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


async def test_a_call_in_a_thread_that_nobody_awaits_runs_to_its_end():
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


async def test_the_threads_of_a_loop_execute_calls_of_asyncio_to_thread():
    asyncio.get_running_loop().set_default_executor(LoopThreads())
    assert await asyncio.to_thread(int, "7", base=8) == 7
    with pytest.raises(ValueError, match="'x'"):
        await asyncio.to_thread(int, "x")


async def test_a_loop_has_as_many_threads_as_asyncio_would_give_it():
    asyncio.get_running_loop().set_default_executor(LoopThreads())
    most = min(32, (os.cpu_count() or 1) + 4)
    go_on, begun = threading.Event(), []

    def work(n: int) -> None:
        begun.append(n)
        go_on.wait()

    calls = [asyncio.ensure_future(asyncio.to_thread(work, n)) for n in range(most + 2)]
    await until(lambda: len(begun) == most)
    # The call has not begun yet, so it never will.
    calls[-1].cancel()
    await asyncio.wait(calls[-1:])
    go_on.set()
    await asyncio.gather(*calls[:-1])
    assert sorted(begun) == [*range(most + 1)]


def test_a_loop_that_ends_waits_for_none_of_its_threads():
    go_on, ended = threading.Event(), threading.Event()

    def work() -> None:
        go_on.wait()
        ended.set()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(LoopThreads())
        loop.run_in_executor(None, work)

    asyncio.run(main())
    assert not ended.is_set()
    go_on.set()
    ended.wait()


async def test_a_thread_that_can_t_be_started_fails_its_call_and_no_later_one(monkeypatch):
    threads = Threads(most=1)
    called: list[str] = []

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await threads.call(called.append, ("refused",), {})
    # There is room for one, and that one does not begin with what its caller was told has failed.
    await asyncio.wait_for(threads.call(called.append, ("accepted",), {}), PATIENCE)
    assert called == ["accepted"]
    threads.close()
