"""A worker whose loop runs in another thread than whoever stops it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast import Worker, workflow
from tests.worker.stage import PATIENCE


@workflow
async def body() -> None:
    pass


@pytest.mark.parametrize("how", ["stop", "leave"])
def test_a_worker_can_be_stopped_from_any_thread(database_url, how):
    worker = Worker(database_url, workflows=[body])
    begun = threading.Event()

    async def serve() -> None:
        async with worker:
            begun.set()
            await worker.wait()

    # In debug mode a loop refuses what is not asked of it in its own thread.
    thread = threading.Thread(target=asyncio.run, args=(serve(),), kwargs={"debug": True}, daemon=True)
    thread.start()
    assert begun.wait(PATIENCE)
    getattr(worker, how)()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_a_worker_that_was_stopped_from_another_thread_as_it_ended_can_be_entered_again(database_url):
    worker = Worker(database_url, workflows=[body])

    async def serve() -> bool:
        async with worker:
            asking = threading.Thread(target=worker.stop)
            worker.stop()
            asking.start()
            asking.join()
        async with worker:
            await asyncio.sleep(0)
            return not worker._stopping.is_set()

    assert asyncio.run(serve())
