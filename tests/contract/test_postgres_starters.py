"""Group commit for starts: what is sent together, and whom nobody has to wait for."""

import asyncio
from functools import partial

from holdfast.store import open_store
from holdfast.store.postgres.starters import Starter
from holdfast.testing.contract.stage import new_run


class HeldPool:
    """The store's own pool, each of whose deeds waits until it is let go."""

    def __init__(self, store):
        self._store = store
        self.asked = asyncio.Semaphore(0)
        self.go = asyncio.Semaphore(0)

    async def run(self, deed, **how):
        self.asked.release()
        await self.go.acquire()
        return await self._store._thread.call(partial(self._store._pool.run, deed, **how))


async def test_whoever_starts_first_does_not_wait_for_those_who_come_meanwhile(postgres):
    store = open_store(postgres.create_database())
    await store.open()
    try:
        pool = HeldPool(store)
        starter = Starter(pool)
        first = asyncio.create_task(starter.start([new_run()], None))
        await pool.asked.acquire()
        second = asyncio.create_task(starter.start([new_run()], None))
        pool.go.release()
        await pool.asked.acquire()
        await asyncio.sleep(0)
        is_answered = first.done()
        pool.go.release()
        [[one], [other]] = await asyncio.gather(first, second)
        assert is_answered
        assert one.created
        assert other.created
    finally:
        await store.close()
