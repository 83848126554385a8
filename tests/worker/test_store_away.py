"""A store that goes away: workers wait for it, and nothing is lost or repeated."""

from __future__ import annotations

import asyncio
import gc

import pytest

from holdfast import StoreAway, StoreError, Worker, step, workflow
from holdfast.store import Answer, SqliteStore
from tests.worker.samples import ready
from tests.worker.stage import PATIENCE, Stalling, reap, stage, until


class Flaky(SqliteStore):
    """A store that can be made to be away for some of its methods."""

    def __init__(self, url: str) -> None:
        super().__init__(url.removeprefix("sqlite:///"), url, "default")
        self.away: set[str] = set()
        self.refused: list[str] = []

    def _check(self, what: str) -> None:
        if what in self.away:
            self.refused.append(what)
            raise StoreAway("the database is away")

    async def register_worker(self, *args, **kwargs):
        self._check("register_worker")
        return await super().register_worker(*args, **kwargs)

    async def next_due(self, *args, **kwargs):
        self._check("next_due")
        return await super().next_due(*args, **kwargs)

    async def claim_runs(self, *args, **kwargs):
        self._check("claim_runs")
        return await super().claim_runs(*args, **kwargs)

    def commit_turns(self, *args, **kwargs):
        self._check("commit_turns")
        return super().commit_turns(*args, **kwargs)

    async def read_unmatched(self, *args, **kwargs):
        self._check("read_unmatched")
        return await super().read_unmatched(*args, **kwargs)

    def renew_lease(self, *args, **kwargs):
        self._check("renew_lease")
        return super().renew_lease(*args, **kwargs)


@pytest.mark.parametrize("what", ["next_due", "claim_runs", "commit_turns"])
async def test_a_worker_waits_for_a_store_that_went_away_and_goes_on(database_url, what):
    executed: list[int] = []

    @step
    async def act() -> int:
        executed.append(1)
        return len(executed)

    @workflow
    async def body() -> int:
        return await act()

    store = Flaky(database_url)
    await store.open()
    async with Worker(store, workflows=[body]), stage(database_url) as on:
        store.away.add(what)
        run = await on.client.start(body)
        await until(lambda: store.refused)
        store.away.clear()
        assert await run.result(PATIENCE) == 1
    await store.close()
    assert executed == [1]


async def test_renewals_that_fail_for_a_while_lose_nothing(database_url):
    store = Flaky(database_url)
    await store.open()
    async with Worker(store, workflows=[ready], lease="6s") as worker:
        first = worker.id
        store.away.add("renew_lease")
        await until(lambda: store.refused)
        store.away.clear()
        async with stage(database_url) as on:
            assert await (await on.client.start(ready)).result(PATIENCE) == "ready"
        assert worker.id == first
    await store.close()


async def test_a_store_is_logged_as_back_only_when_it_has_answered(database_url, caplog):
    """While its lease has lapsed a worker claims no runs: other calls show whether the store is back."""
    store, clock = Flaky(database_url), Stalling()
    await store.open()
    async with Worker(store, workflows=[ready], clock=clock), stage(database_url) as on:
        store.away |= {"next_due", "claim_runs", "read_unmatched", "renew_lease"}
        clock.stalled += 31_000_000
        run = await on.client.start(ready)
        await until(lambda: store.refused.count("read_unmatched") >= 3)
        assert "the store is away, claims wait for it" in caplog.text
        assert "the store is back" not in caplog.text
        store.away.clear()
        assert await run.result(PATIENCE) == "ready"
        # The look that claimed the run may last longer than the run.
        await until(lambda: "the store is back" in caplog.text)
    assert caplog.text.count("the store is back") == 1
    await store.close()


async def test_a_worker_whose_store_can_not_be_opened_raises_at_its_start(tmp_path):
    url = f"sqlite:///{tmp_path / 'no' / 'such' / 'folder' / 'holdfast.db'}"
    with pytest.raises(StoreError, match="folder"):
        async with Worker(url, workflows=[ready]):
            pass


async def test_a_worker_that_lost_its_lease_waits_for_a_store_that_is_away_to_register_anew(database_url):
    store = Flaky(database_url)
    await store.open()
    try:
        async with stage(database_url) as on, Worker(store, workflows=[ready], lease="3s") as worker:
            first = worker.id
            store.away.add("register_worker")
            await on.store.reap_workers("somebody", now=on.clock.now() + 3_600_000_000)
            await until(lambda: store.refused)
            store.away.clear()
            await until(lambda: worker.id not in (None, first))
            assert await (await on.client.start(ready)).result(PATIENCE) == "ready"
    finally:
        await store.close()


async def test_a_write_that_fails_after_its_worker_lost_the_lease_is_not_reported(database_url):
    said: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: said.append(context["message"]))
    under_way: list[asyncio.Future[list[Answer]]] = []

    class Slow(Flaky):
        def commit_turns(self, *args, **kwargs):
            if under_way:
                return super().commit_turns(*args, **kwargs)
            under_way.append(asyncio.get_running_loop().create_future())
            return under_way[0]

    store = Slow(database_url)
    await store.open()
    async with stage(database_url) as on, Worker(store, workflows=[ready], lease="3s") as worker:
        first = worker.id
        await on.client.start(ready)
        await until(lambda: under_way)
        await reap(on)
        await until(lambda: worker.id not in (None, first))
        under_way[0].set_exception(StoreAway("the database is away"))
    await store.close()
    # Whatever nobody has asked for is reported when it goes.
    under_way.clear()
    gc.collect()
    assert said == []
