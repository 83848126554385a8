"""Runs that continue as new and that somebody else has locked: they wait, and what goes out beside them does not."""

import pytest

from holdfast.errors import StoreAway
from holdfast.model import Out, RunStatus
from holdfast.testing.contract.stage import new_run, turn
from tests.contract.staging import staged
from tests.contract.test_postgres_locks import locked, url

__all__ = ["url"]


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_locked_run_that_continues_as_new_waits_alone(url, is_lost):
    async with staged(url) as stage:
        going_on, other = await stage.held(), await stage.held()
        successor = new_run()
        last = turn(going_on, out=Out(successor=successor))
        if is_lost:
            # Its answer was lost.
            assert await stage.commit(last) == [True]
        async with locked(url, going_on.id):
            first, second = await stage.commit(last, turn(other, out=Out(values=(("at", b"1"),))))
            assert second is True
            assert first is True if is_lost else isinstance(first, StoreAway)
            assert ((await stage.run(going_on.id)).status is RunStatus.CONTINUED) is is_lost
        assert await stage.commit(last) == [True]
        assert (await stage.claim_one(run_id=successor.id)).chain_id == going_on.id


async def test_a_stale_turn_that_continues_a_locked_run_is_refused(url):
    async with staged(url) as stage:
        stale = await stage.held()
        await stage.lose()
        await stage.claim_one(worker="two")
        async with locked(url, stale.id):
            assert await stage.commit(turn(stale, out=Out(successor=new_run()))) == [False]
