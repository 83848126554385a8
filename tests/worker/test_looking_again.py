"""A worker that is busy finds what there is to do, also without the look that comes now and then."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, Client, Worker, step, workflow
from holdfast.define import Workflow
from holdfast.model import ClaimedRun, Message, RunStatus
from holdfast.store import News, open_store
from holdfast.worker import claiming
from holdfast.worker.upkeep import Upkeep
from tests.worker.stage import PATIENCE, SkippingClock, SkippingStore, stage, until


class Ringing(SkippingStore):
    """A store that tells nobody of anything, in which the timers of those who rest ring while the second claim is under
    way."""

    def __init__(self, url: str, clock: SkippingClock) -> None:
        super().__init__(url, clock)
        self.claims = 0
        self._skip = clock.skip

    async def claim_runs(self, *args: Any, **given: Any) -> list[ClaimedRun]:
        self.claims += 1
        if self.claims == 2:
            self._skip("2s")
            await asyncio.sleep(0.05)
        return await super().claim_runs(*args, **given)

    def subscribe(self, callback: Callable[[], None], to: News = News.ANY) -> Callable[[], None]:
        return lambda: None


@pytest.fixture(autouse=True)
def _nobody_looks_now_and_then(monkeypatch):
    monkeypatch.setattr(Upkeep, "run", lambda self: asyncio.sleep(3600))


def lasting() -> tuple[Workflow[[], None], asyncio.Event]:
    """A workflow that keeps its worker busy until the event is set: one that has nothing to do looks for itself."""
    released = asyncio.Event()

    @step
    async def hold() -> None:
        await released.wait()

    @workflow
    async def long() -> None:
        await hold()

    return long, released


async def test_a_worker_looks_again_when_the_runs_that_waited_for_a_place_have_ended_at_once(database_url):
    long, released = lasting()

    @workflow
    async def nap() -> None:
        await holdfast.sleep("1s")

    async with stage(database_url) as on:
        store = Ringing(database_url, on.clock)
        await store.open()
        holding = await on.client.start(long, priority=9)
        naps = await on.client.start_many(nap, [()] * 6)
        async with Worker(store, workflows=[long, nap], clock=on.clock, lease="1000d", concurrency=3):
            # Two of them rest, and ring while two more are claimed: they stand in line when the worker looks whether
            # it has room, and leave it at once. It is busy with the long run all the time.
            await until(lambda: store.claims >= 3)
            for run in naps:
                on.skip("2s")
                assert await run.wait(PATIENCE) is RunStatus.COMPLETED
            released.set()
            assert await holding.wait(PATIENCE) is RunStatus.COMPLETED
        await store.close()


class Told(SkippingStore):
    """A store in which something happens when a claim has taken a run, before it is answered."""

    def __init__(self, url: str, clock: SkippingClock) -> None:
        super().__init__(url, clock)
        self.asked: list[str] = []
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def claim_runs(self, *args: Any, **given: Any) -> list[ClaimedRun]:
        claimed = await super().claim_runs(*args, **given)
        self.asked.append("claim_runs")
        if claimed and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            self.asked.clear()
            await meanwhile()
        return claimed

    async def read_inbox(self, *args: Any, **given: Any) -> list[Message]:
        self.asked.append("read_inbox")
        return await super().read_inbox(*args, **given)


async def test_a_message_that_comes_amid_a_backlog_is_read_before_the_rest_of_it_is_claimed(database_url, monkeypatch):
    monkeypatch.setattr(claiming, "_CLAIM", 1)

    @workflow
    async def listening() -> None:
        await holdfast.wait_for_signal("go")

    @workflow
    async def nothing() -> None: ...

    async with stage(database_url) as on:
        store = Told(database_url, on.clock)
        await store.open()
        async with Worker(store, workflows=[listening, nothing], clock=on.clock, lease="1000d") as worker:
            run = await on.client.start(listening)
            await on.until_waiting(run)

            async def signal() -> None:
                await on.client.signal(run.id, "go")
                await until(lambda: worker._session._is_changed)

            store.meanwhile = signal
            others = await on.client.start_many(nothing, [()] * 5)
            assert await run.wait(PATIENCE) is RunStatus.COMPLETED
            for one in others:
                assert await one.wait(PATIENCE) is RunStatus.COMPLETED
        assert store.asked[0] == "read_inbox"
        await store.close()


async def test_a_worker_on_a_store_in_memory_hears_of_a_run_started_by_a_transactional_step():
    """There is no file to watch there, and the end of the step's own run concerns no worker."""
    store = open_store("sqlite:///:memory:")
    long, released = lasting()

    @workflow
    async def ship(order: int) -> int:
        return order

    @step(transaction=True)
    def begin(connection: Any, order: int) -> str:
        return inside.start(ship, order, connection=connection).id

    @workflow
    async def ordering(order: int) -> str:
        return begin(order)

    async with AsyncClient(store) as client:
        inside = Client(store)
        async with Worker(client, workflows=[ordering, ship, long]):
            holding = await client.start(long)
            await until(lambda: client.explain(holding.id))
            begun = await (await client.start(ordering, 7)).result(PATIENCE)
            assert await (await client.get_run(begun)).result(PATIENCE) == 7
            released.set()
            await holding.result(PATIENCE)
