"""One worker, driven from several threads, each with a loop of its own: none closes the store under another."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast import Worker
from holdfast.worker.gate import Gate
from tests.worker.samples import ready

TIMES = 20


def in_threads(work) -> list[BaseException]:
    """Call it in two threads at once, many times over; what went wrong."""
    failed: list[BaseException] = []

    def repeat() -> None:
        for _ in range(TIMES):
            try:
                asyncio.run(work())
            except BaseException as error:
                failed.append(error)

    threads = [threading.Thread(target=repeat) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def test_drives_of_one_worker_in_several_threads_don_t_close_the_store_under_each_other(database_url):
    worker = Worker(database_url, workflows=[ready])
    assert in_threads(lambda: worker.drive(budget="10s")) == []


def test_a_gate_lets_one_task_pass_at_a_time_whichever_loop_it_runs_on():
    gate = Gate()
    inside: list[int] = []
    most: list[int] = []

    async def pass_through() -> None:
        async with gate:
            inside.append(1)
            await asyncio.sleep(0)
            most.append(len(inside))
            inside.pop()

    assert in_threads(pass_through) == []
    assert set(most) == {1}


async def test_a_gate_is_open_again_after_a_task_that_failed_or_gave_up_waiting():
    gate = Gate()
    with pytest.raises(ValueError, match="inside"):
        async with gate:
            raise ValueError("inside")
    async with gate:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), gate:
                pass
    async with gate:
        assert gate._lock.locked()
