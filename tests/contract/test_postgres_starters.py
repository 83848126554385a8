"""Group commit for starts: what is sent together, and whom nobody has to wait for."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import asyncpg
import pytest

from holdfast.model import RowChange, RunStatus
from holdfast.store import open_store
from holdfast.store.postgres.starters import Starter
from holdfast.store.postgres.starts import start_runs
from holdfast.testing.contract.stage import LANE, new_run, turn
from tests.contract import test_postgres_plans as plans
from tests.contract.staging import MEANWHILE


class HeldPool:
    """The store's own pool, each of whose deeds waits until it is let go."""

    def __init__(self, store):
        self._store = store
        self.asked = asyncio.Semaphore(0)
        self.go = asyncio.Semaphore(0)
        self.error = None
        """What the next deed comes to instead."""

    async def run(self, deed, **how):
        self.asked.release()
        await self.go.acquire()
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return await self._store._thread.call(partial(self._store._pool.run, deed, **how))


@asynccontextmanager
async def opened(postgres, url=None):
    store = open_store(url or postgres.create_database())
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def test_the_first_start_does_not_wait_for_later_ones(postgres):
    async with opened(postgres) as store:
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


async def test_starts_tried_one_by_one_are_all_answered_though_one_caller_has_gone(postgres):
    async with opened(postgres) as store:
        pool = HeldPool(store)
        starter = Starter(pool)
        first = asyncio.create_task(starter.start([new_run()], None))
        await pool.asked.acquire()
        gone, second, third = (asyncio.create_task(starter.start([new_run()], None)) for _ in range(3))
        await asyncio.sleep(0)
        pool.go.release()
        await first
        await pool.asked.acquire()
        pool.error = ValueError("one of them can't be started")
        gone.cancel()
        for _ in range(4):
            pool.go.release()
        answers = await asyncio.gather(second, third)
        assert [one.created for answer in answers for one in answer] == [True, True]


async def test_a_run_is_found_though_the_transaction_that_made_its_lane_was_rolled_back(postgres):
    async with opened(postgres) as store:

        async def undone(tx):
            await start_runs(tx, [new_run()], None)
            raise ValueError("something else in it can't be stored")

        with pytest.raises(ValueError, match="something else"):
            await store._thread.call(partial(store._pool.run, undone))
        [started] = await store.start_runs([new_run()])
        assert started.created
        assert await store.get_run(started.id) is not None


@pytest.mark.parametrize("on_conflict", ["return", "restart"])
async def test_a_run_that_a_caller_s_start_returns_goes_on_while_the_caller_s_transaction_is_open(
    postgres, on_conflict
):
    url = postgres.create_database()
    async with opened(postgres, url) as store:
        [there] = await store.start_runs([new_run(key="k")])
        [held] = await store.claim_runs("one", [LANE], 1)
        connection = await asyncpg.connect(url)
        try:
            async with connection.transaction():
                again = new_run(key="k", on_conflict=on_conflict)
                [started] = await store.guest(connection).start_runs([again])
                assert (started.id, started.created) == (there.id, False)
                [accepted] = await store.commit_turns([turn(held, change=RowChange(status=RunStatus.COMPLETED))])
        finally:
            await connection.close()
        assert accepted is True


@asynccontextmanager
async def holding(store, url, *keys):
    """A caller's open transaction that has started runs with these keys, and comes to nothing."""
    connection = await asyncpg.connect(url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await store.guest(connection).start_runs([new_run(key=key) for key in keys])
        yield
        await transaction.rollback()
    finally:
        await connection.close()


async def test_a_start_with_a_held_key_keeps_no_other_start_waiting(postgres):
    url = postgres.create_database()
    async with opened(postgres, url) as store:
        async with holding(store, url, "a", "b", "c"):
            waiting = []
            async with asyncio.timeout(MEANWHILE):
                for key in ("a", "b", "c"):
                    waiting.append(asyncio.ensure_future(store.start_runs([new_run(key=key)])))
                    [[one], [other]] = await asyncio.gather(
                        store.start_runs([new_run()]), store.start_runs([new_run(key=f"not {key}")])
                    )
                    assert one.created
                    assert other.created
            assert not any(task.done() for task in waiting)
        assert [started.created for [started] in await asyncio.gather(*waiting)] == [True] * 3


async def test_a_start_with_a_key_that_nobody_holds_needs_no_transaction_around_its_statement(postgres):
    async with plans.opened(postgres.create_database()) as (store, texts):
        await store.start_runs([new_run()])
        texts.clear()
        await store.start_runs([new_run(key="k")])
        assert not [text for text in texts if text.startswith(("BEGIN", "SET LOCAL", "COMMIT"))]


async def test_a_start_waits_for_its_key_also_if_another_of_its_group_can_not_be_started(postgres):
    url = postgres.create_database()
    async with opened(postgres, url) as store:
        pool = HeldPool(store)
        starter = Starter(pool)
        async with holding(store, url, "k"):
            first = asyncio.create_task(starter.start([new_run()], None))
            await pool.asked.acquire()
            waiting, beside = (asyncio.create_task(starter.start([new_run(key=key)], None)) for key in ("k", None))
            await asyncio.sleep(0)
            pool.go.release()
            await first
            await pool.asked.acquire()
            pool.error = ValueError("one of them can't be started")
            for _ in range(4):
                pool.go.release()
            await beside
            assert not waiting.done()
        [started] = await waiting
        assert started.created
