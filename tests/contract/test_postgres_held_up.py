"""What a caller's open transaction holds keeps nobody else waiting: a turn that needs it comes again by itself, and a
worker that begins goes on without it."""

import asyncio
from functools import partial

import asyncpg
import pytest

from holdfast.errors import StoreAway, StoreError
from holdfast.model import Out
from holdfast.store.postgres import commits, ends
from holdfast.testing.contract.stage import LANE, LEASE, T0, after, new_run, turn
from tests.contract.staging import MEANWHILE, staged
from tests.contract.test_postgres_locks import locked, url

__all__ = ["url"]


async def test_a_turn_that_waits_for_a_key_in_a_caller_s_transaction_is_tried_apart_from_the_others(url, monkeypatch):
    sent = []
    write_batch = commits.write_batch

    async def noted(link, write, items, **how):
        sent.append([item.run_id for item in items])
        return await write_batch(link, write, items, **how)

    async with staged(url) as stage:
        asker, other = await stage.held(), await stage.held()
        child = new_run(parent_id=asker.id, parent_key="pay", key="k")
        asks = turn(asker, out=Out(children=(child,)))
        beside = [turn(other, after=place, out=Out(values=(("at", b"1"),))) for place in range(3)]
        connection = await asyncpg.connect(url)
        try:
            async with connection.transaction():
                [started] = await stage.store.guest(connection).start_runs([new_run(key="k")])
                first, is_accepted = await stage.commit(asks, beside[0])
                assert isinstance(first, StoreAway)
                assert is_accepted is True
                monkeypatch.setattr(commits, "write_batch", noted)
                again, is_accepted = await stage.commit(asks, beside[1])
                assert isinstance(again, StoreAway)
                assert is_accepted is True
                assert sent == [[other.id], [asker.id]]
        finally:
            await connection.close()
        assert await stage.commit(asks, beside[2]) == [True, True]
        assert await stage.store.get_run(child.id) is None
        assert (await stage.run(started.id)).key == "k"
        # From here on it goes with the others again.
        sent.clear()
        last = [
            turn(asker, after=1, out=Out(values=(("at", b"1"),))),
            turn(other, after=3, out=Out(values=(("a", b""),))),
        ]
        assert await stage.commit(*last) == [True, True]
        assert sent == [[asker.id, other.id]]


async def test_a_blocked_run_that_is_locked_holds_up_no_worker_that_registers(url):
    async with staged(url) as stage:
        await stage.start(2)
        runs = await stage.claim()
        for run in runs:
            assert await stage.hand_back(run, blocked="why", due_at=after(60)) is True
        async with locked(url, runs[0].id):
            await stage.store.register_worker("two", [LANE], LEASE, now=T0)
            assert (await stage.claim_one(worker="two")).id == runs[1].id


async def test_calls_that_wait_for_a_locked_run_keep_no_others_waiting(url):
    async with staged(url) as stage:
        run = await stage.held()
        async with locked(url, run.id):
            # More than the store has connections.
            waiting = [asyncio.ensure_future(stage.store.cancel_run(run.id, now=T0)) for _ in range(12)]
            async with asyncio.timeout(MEANWHILE):
                for _ in range(10):
                    other = await stage.start_one()
                    assert (await stage.claim_one(worker="two")).id == other
                    await stage.store.read_inbox("one")
            assert not any(task.done() for task in waiting)
        assert {found.id for found in await asyncio.gather(*waiting)} == {run.id}
        assert [message.kind for message in await stage.store.read_inbox("one")] == ["cancel"]


def cancel(stage, run, patience):
    deed = partial(ends.cancel_run, run_id=run.id, reason=None, force=False, now=T0)
    return stage.store._thread.call(partial(stage.store._pool.run, deed, patience=patience))


async def test_a_call_that_has_waited_too_long_for_a_lock_advises_to_look_for_an_open_transaction(url):
    async with staged(url) as stage:
        run = await stage.held()
        async with locked(url, run.id):
            with pytest.raises(StoreAway, match=r"lock timeout.* Another transaction holds .* left open"):
                await cancel(stage, run, 0.2)
        assert (await cancel(stage, run, 0.2)).id == run.id


async def test_a_call_that_waits_for_a_lock_makes_no_connection_once_the_pool_is_closed(url):
    async with staged(url) as stage:
        run = await stage.held()
        async with locked(url, run.id):
            waiting = asyncio.ensure_future(cancel(stage, run, 20))
            await asyncio.sleep(0.3)
            await stage.store._thread.call(stage.store._pool.close)
            with pytest.raises(StoreError, match="closed"):
                await waiting
        assert stage.store._pool._links == []
