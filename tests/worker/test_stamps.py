"""An entry gets the time at which it is taken in, however long it waited: the body's timers count from there."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

from holdfast import Worker, now, sleep, step, workflow
from holdfast.define import Workflow
from holdfast.model import Cancel, Instant, StepCompleted, instant_of
from holdfast.store import SqliteStore
from tests.worker.stage import PATIENCE, SkippingClock, stage, until


@step
async def quick() -> None: ...


class Watched(SqliteStore):
    """A store that counts what it hands out, and may keep the answers to turns to itself."""

    def __init__(self, url: str) -> None:
        super().__init__(url.removeprefix("sqlite:///"), url, "default")
        self.delivered = self.sent = 0
        self.answers = asyncio.Event()
        self.answers.set()

    async def read_inbox(self, worker_id, *, known=()):
        messages = await super().read_inbox(worker_id, known=known)
        self.delivered += len(messages)
        return messages

    async def commit_turns(self, turns, *, now=None):
        answers = await super().commit_turns(turns, now=now)
        self.sent += 1
        await self.answers.wait()
        return answers


@asynccontextmanager
async def watched(url: str, *workflows: Workflow[..., Any], concurrency: int = 100):
    """A stage whose worker has a store and a clock of its own."""
    store, clock = Watched(url), SkippingClock()
    await store.open()
    worker = Worker(store, workflows=workflows, clock=clock, lease="1000d", concurrency=concurrency)
    async with stage(url) as on, worker:
        yield on, store, clock
    await store.close()


async def test_a_cancel_that_waited_for_a_busy_worker_gets_the_time_at_which_it_is_taken_in(database_url):
    """The wait for a busy worker must not use up the time that a cleanup gives itself."""
    is_busy, may_end = asyncio.Event(), asyncio.Event()
    cleaned: list[str] = []

    @step
    async def keeps_busy() -> None:
        is_busy.set()
        await may_end.wait()

    @workflow
    async def crowd() -> None:
        await keeps_busy()

    @workflow
    async def body() -> None:
        try:
            await sleep("9s")
        finally:
            async with asyncio.timeout(60):
                await quick()
            cleaned.append("in time")

    async with watched(database_url, body, crowd, concurrency=1) as (on, store, clock):
        run = await on.client.start(body)
        await on.until_waiting(run)
        await on.client.start(crowd)
        await is_busy.wait()
        await run.cancel()
        await until(lambda: store.delivered)
        clock.skip("1h")
        taken_at = clock.now()
        may_end.set()
        await on.until_status(run, "cancelled")
        stamped = [entry.at for entry in await on.entries(run) if isinstance(entry, Cancel)]
    assert stamped[0] >= taken_at
    assert cleaned == ["in time"]


async def test_a_result_that_came_while_a_turn_was_written_gets_the_time_at_which_it_is_taken_in(database_url):
    may_end, has_ended = asyncio.Event(), asyncio.Event()
    seen: list[Instant] = []

    @step
    async def slower() -> None:
        await may_end.wait()
        has_ended.set()

    @workflow
    async def body() -> None:
        other = slower.start()
        await quick()
        await other
        seen.append(instant_of(now()))

    async with watched(database_url, body) as (on, store, clock):
        store.answers.clear()
        run = await on.client.start(body)
        await until(lambda: store.sent)
        may_end.set()
        await has_ended.wait()
        clock.skip("1h")
        taken_at = clock.now()
        store.answers.set()
        await run.result(PATIENCE)
        results = [entry.at for entry in await on.entries(run) if isinstance(entry, StepCompleted)]
    assert results[1] >= taken_at
    assert seen == [results[1]]
