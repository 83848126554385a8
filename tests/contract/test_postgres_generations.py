"""Claims on Postgres beside what else is done about their worker: renewals wait for none, releases for all."""

import asyncio
import concurrent.futures
import contextlib

import pytest

from holdfast.errors import LeaseLost
from holdfast.store.postgres.transactions import Transaction
from holdfast.testing.contract.stage import LANE, LEASE, T0, after
from tests.contract.staging import MEANWHILE, staged
from tests.servers import fetch


@pytest.fixture
def url(postgres):
    return postgres.create_database()


@pytest.fixture
def held_up(monkeypatch):
    """A deed that stands still after one of its blocks, its transaction open."""

    @contextlib.asynccontextmanager
    async def held_up(deed, behind):
        reached, go, ask = concurrent.futures.Future(), concurrent.futures.Future(), Transaction.all

        async def all(tx, name, params):
            rows = await ask(tx, name, params)
            if name == behind and not reached.done():
                reached.set_result(None)
                await asyncio.wrap_future(go)
            return rows

        monkeypatch.setattr(Transaction, "all", all)
        task = asyncio.ensure_future(deed)
        await asyncio.wrap_future(reached)
        try:
            yield task
        finally:
            if not go.done():
                go.set_result(None)
            await task

    return held_up


async def waits_for_a_lock(url):
    """Come back when somebody does."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        " AND backend_type = 'client backend'"
    )
    async with asyncio.timeout(MEANWHILE):
        while (await fetch(url, waiting))[0][0] == 0:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("by_id", [False, True])
async def test_a_renewal_does_not_wait_for_a_claim_of_its_worker(url, held_up, by_id):
    async with staged(url) as stage:
        await stage.store.register_worker("one", [LANE], LEASE, now=T0)
        run_id = await stage.start_one()
        claim = stage.claim(run_id=run_id if by_id else None)
        async with held_up(claim, behind="claim_run" if by_id else "claim_runs") as claiming:
            renewing = asyncio.to_thread(stage.store.renew_lease, "one", LEASE, now=after(1))
            assert await asyncio.wait_for(renewing, MEANWHILE) == after(1)
            # And none of those who wait for the claim is waited for, either.
            releasing = asyncio.ensure_future(stage.store.release_strays("one", [], now=T0))
            await waits_for_a_lock(url)
            renewing = asyncio.to_thread(stage.store.renew_lease, "one", LEASE, now=after(2))
            assert await asyncio.wait_for(renewing, MEANWHILE) == after(2)
        assert [run.id for run in claiming.result()] == [run_id]
        assert await releasing == [run_id]


async def test_a_claim_that_comes_while_its_worker_gives_back_what_it_does_not_know_of_takes_nothing(url, held_up):
    async with staged(url) as stage:
        other = await stage.open()
        for store in (stage.store, other):
            await store.register_worker("one", [LANE], LEASE, now=T0)
        await stage.start_one()
        async with held_up(stage.store.release_strays("one", [], now=T0), behind="next_generation"):
            claiming = asyncio.ensure_future(other.claim_runs("one", [LANE], 1, now=T0))
            await waits_for_a_lock(url)
        assert await claiming == []
        assert len(await stage.claim()) == 1


async def test_a_claim_that_is_under_way_when_its_worker_is_reaped_is_found_by_whoever_reaps(url, held_up):
    async with staged(url) as stage:
        other = await stage.open()
        await stage.store.register_worker("one", [LANE], LEASE, now=T0)
        run_id = await stage.start_one()
        async with held_up(stage.claim(), behind="claim_runs"):
            reaping = asyncio.ensure_future(other.reap_workers("two", now=after(3600)))
            await waits_for_a_lock(url)
        assert await reaping == ["one"]
        with pytest.raises(LeaseLost):
            await stage.claim()
        again = await stage.claim_one(worker="two", now=after(3600))
        assert (again.id, again.is_takeover) == (run_id, True)
