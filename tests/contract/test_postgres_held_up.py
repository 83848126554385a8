"""What a caller's open transaction holds keeps nobody else waiting: a turn that needs it comes again by itself, and a
worker that begins goes on without it."""

import asyncpg

from holdfast.errors import StoreAway
from holdfast.model import Out
from holdfast.store.postgres import commits
from holdfast.testing.contract.stage import LANE, LEASE, T0, after, new_run, turn
from tests.contract.staging import staged
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
