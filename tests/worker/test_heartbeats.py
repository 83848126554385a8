"""Heartbeats: they are progress, and what an attempt says with one is found by the next attempt."""

from __future__ import annotations

import asyncio
import sys
import threading
from enum import Enum
from typing import Any

import pytest

import holdfast
from holdfast import NotEncodable, Retry, Worker, current_step, step, wait_for_signal, workflow
from holdfast.model import Lane
from tests.worker.stage import ONCE, PATIENCE, SkippingClock, SkippingStore, failure_of, reap, stage, until


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_an_attempt_finds_the_last_heartbeat_details_of_the_failed_one_before_it(database_url, colour):
    found: list[Any] = []

    def work() -> str:
        me = current_step()
        found.append(me.heartbeat_details)
        me.heartbeat({"page": 10 * me.attempt})
        me.heartbeat({"page": 10 * me.attempt + 1})
        if me.attempt < 3:
            raise ValueError("not yet")
        return "done"

    @step(retry=Retry(attempts=3, initial=0, jitter=0))
    async def asynchronous() -> str:
        return work()

    @step(retry=Retry(attempts=3, initial=0, jitter=0))
    def threaded() -> str:
        return work()

    @workflow
    async def body() -> str:
        return await asynchronous() if colour == "async" else threaded()

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result(PATIENCE) == "done"
    assert found == [None, {"page": 11}, {"page": 21}]


async def test_an_attempt_without_heartbeats_passes_on_the_details_it_found(database_url):
    found: list[Any] = []

    @step(retry=Retry(attempts=3, initial=0, jitter=0))
    async def silent() -> None:
        me = current_step()
        found.append(me.heartbeat_details)
        if me.attempt == 1:
            me.heartbeat("so far")
        if me.attempt < 3:
            me.heartbeat()
            raise ValueError("not yet")

    @workflow
    async def body() -> None:
        await silent()

    async with stage(database_url, body) as on:
        await (await on.client.start(body)).result(PATIENCE)
    assert found == [None, "so far", "so far"]


@pytest.mark.parametrize("timeout", [None, "1h"])
@pytest.mark.parametrize("colour", ["async", "def"])
async def test_an_attempt_of_a_map_item_finds_the_details_of_that_item_and_of_no_other(database_url, colour, timeout):
    found: list[Any] = []

    def work(n: int) -> int:
        me = current_step()
        found.append(me.heartbeat_details)
        if me.attempt < 3:
            if me.attempt == 1:
                me.heartbeat({"item": n})
            raise ValueError("not yet")
        return n

    @step(retry=Retry(attempts=3, initial=0, jitter=0), timeout=timeout)
    async def on_the_loop(n: int) -> int:
        return work(n)

    @step(retry=Retry(attempts=3, initial=0, jitter=0), timeout=timeout)
    def in_a_thread(n: int) -> int:
        return work(n)

    @workflow
    async def body() -> list[int]:
        return await holdfast.map(on_the_loop if colour == "async" else in_a_thread, [1, 2], chunk=2)

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result(PATIENCE) == [1, 2]
    assert found == [None, {"item": 1}, {"item": 1}, None, {"item": 2}, {"item": 2}]


@pytest.mark.parametrize("is_mapped", [False, True])
async def test_heartbeat_details_are_kept_as_they_were_at_the_call(database_url, is_mapped):
    found: list[Any] = []

    @step(retry=Retry(attempts=2, initial=0, jitter=0))
    async def counting(n: int) -> int:
        me = current_step()
        found.append(me.heartbeat_details)
        done = {"pages": 1}
        me.heartbeat(done)
        done["pages"] = 2
        if me.attempt < 2:
            raise ValueError("not yet")
        return n

    @workflow
    async def body() -> Any:
        return await holdfast.map(counting, [1]) if is_mapped else await counting(1)

    async with stage(database_url, body) as on:
        await (await on.client.start(body)).result(PATIENCE)
    assert found == [None, {"pages": 1}]


async def test_heartbeat_details_outlast_the_worker_that_received_them(database_url):
    found: list[Any] = []

    @step(retry=Retry(attempts=2, initial="1h", jitter=0))
    async def slow() -> str:
        found.append(current_step().heartbeat_details)
        current_step().heartbeat([1, 2])
        if len(found) == 1:
            raise ValueError("not yet")
        return "done"

    @workflow
    async def body() -> str:
        return await slow()

    async with stage(database_url) as on:
        async with on.worker(body):
            run = await on.client.start(body)
            await on.until_waiting(run)
        on.skip("2h")
        async with on.worker(body):
            assert await run.result(PATIENCE) == "done"
    assert found == [None, [1, 2]]


async def test_heartbeat_details_that_can_not_be_stored_are_an_error_of_the_step(database_url):
    @step(retry=ONCE)
    async def odd() -> None:
        current_step().heartbeat(object())

    @workflow
    async def body() -> None:
        await odd()

    async with stage(database_url, body) as on:
        assert isinstance(await failure_of(await on.client.start(body)), NotEncodable)


class Place(Enum):
    """Which code may forget while a run is under way."""

    FIRST = 1


async def test_heartbeat_details_that_can_no_longer_be_read_block_the_run(database_url, monkeypatch):
    @step(retry=Retry(attempts=2, initial="5s", jitter=0))
    async def halting() -> str:
        me = current_step()
        if me.attempt == 1:
            me.heartbeat(Place.FIRST)
            raise ValueError("not yet")
        return str(me.heartbeat_details)

    @workflow
    async def body() -> list[Any]:
        return await asyncio.gather(halting(), wait_for_signal("go"))

    async with stage(database_url) as on:
        async with on.worker(body):
            run = await on.client.start(body)
            await on.until_waiting(run)
        with monkeypatch.context() as patch:
            patch.delattr(sys.modules[__name__], "Place")
            # Brings the run to a worker before its step is due again.
            await run.signal("go")
            async with on.worker(body):
                assert "Place" in await on.until_blocked(run)
        async with on.worker(body):
            on.skip("1h")
            assert await run.result(PATIENCE) == ["Place.FIRST", None]


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_heartbeat_is_progress(database_url, colour):
    beaten, done = threading.Event(), threading.Event()

    @step
    async def slow() -> None:
        current_step().heartbeat({"share": 0.5})
        beaten.set()
        while not done.is_set():
            await asyncio.sleep(0.002)

    @step
    def quick() -> None:
        current_step().heartbeat("half")
        beaten.set()
        done.wait(20)

    @workflow
    async def body() -> None:
        if colour == "async":
            await slow()
        else:
            quick()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await on.store.register_worker("dead", [Lane("body", "1")], 1_000_000, now=on.clock.now())
        await on.store.claim_runs("dead", [Lane("body", "1")], 1, now=on.clock.now())
        await reap(on)
        async with on.worker(body):
            await until(beaten.is_set)

            async def is_cleared() -> bool:
                return (await on.record(run)).crashes == 0

            await until(is_cleared)
            assert (await on.record(run)).status == "running"
            done.set()
            await run.result(PATIENCE)


class Slow(SkippingStore):
    """A store in which rows are long on their way, and turns if the test says so."""

    def __init__(self, url: str, clock: SkippingClock) -> None:
        super().__init__(url, clock)
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()
        self.turns, self.commit = asyncio.Event(), asyncio.Event()
        self.commit.set()

    async def commit_turns(self, turns, *, now=None):
        self.turns.set()
        await self.commit.wait()
        return await super().commit_turns(turns, now=now)

    async def write_rows(self, writes):
        self.asked.set()
        await self.go_on.wait()
        return await super().write_rows(writes)


async def test_a_timer_that_is_due_while_a_heartbeat_is_being_written_fires_afterwards(database_url):
    @step
    async def beating() -> None:
        current_step().heartbeat()
        await asyncio.Event().wait()

    @workflow
    async def body() -> str:
        try:
            # Counted from the first claim, which was an hour before this one.
            async with asyncio.timeout(7200):
                await beating()
        except TimeoutError:
            return "timeout"
        return "beaten"

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await on.store.register_worker("dead", [Lane("body", "1")], 1_000_000, now=on.clock.now())
        await on.store.claim_runs("dead", [Lane("body", "1")], 1, now=on.clock.now())
        await reap(on)
        store = Slow(database_url, on.clock)
        await store.open()
        async with Worker(store, workflows=[body], clock=on.clock, lease="1000d") as worker:
            await store.asked.wait()
            on.skip("2h")
            await until(lambda: worker._session.runs.held[run.id].alarm is None)
            store.go_on.set()
            assert await run.result(PATIENCE) == "timeout"
        await store.close()


async def test_a_heartbeat_while_a_turn_is_being_committed_writes_nothing(database_url):
    beat, beaten, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @step
    async def quick() -> str:
        return "quick"

    @step
    async def beating() -> str:
        await beat.wait()
        current_step().heartbeat()
        beaten.set()
        await done.wait()
        return "beaten"

    @workflow
    async def body() -> list[str]:
        return list(await asyncio.gather(quick(), beating()))

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await on.store.register_worker("dead", [Lane("body", "1")], 1_000_000, now=on.clock.now())
        await on.store.claim_runs("dead", [Lane("body", "1")], 1, now=on.clock.now())
        await reap(on)
        store = Slow(database_url, on.clock)
        await store.open()
        store.commit.clear()
        async with Worker(store, workflows=[body], clock=on.clock, lease="1000d"):
            await store.turns.wait()
            beat.set()
            await beaten.wait()
            for _ in range(10):
                await asyncio.sleep(0)
            assert not store.asked.is_set()
            store.commit.set()
            done.set()
            assert await run.result(PATIENCE) == ["quick", "beaten"]
            assert (await on.record(run)).crashes == 0
            store.go_on.set()
        await store.close()


async def test_without_a_heartbeat_the_crash_stays_until_a_turn_is_accepted(database_url):
    go_on, begun = asyncio.Event(), asyncio.Event()

    @step
    async def gate() -> None:
        begun.set()
        await go_on.wait()

    @workflow
    async def body() -> None:
        await gate()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await on.store.register_worker("dead", [Lane("body", "1")], 1_000_000, now=on.clock.now())
        await on.store.claim_runs("dead", [Lane("body", "1")], 1, now=on.clock.now())
        await reap(on)
        async with on.worker(body):
            await begun.wait()
            assert (await on.record(run)).crashes == 1
            go_on.set()
            await run.result(PATIENCE)
            assert (await on.record(run)).crashes == 0
