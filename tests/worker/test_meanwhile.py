"""What comes while a row or a turn is being written: it is not lost, not taken twice, and belongs to the next."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from holdfast import Worker, sleep, wait_for_signal, workflow
from holdfast.store import SqliteStore
from tests.worker.gates import Gate, body_of
from tests.worker.slow import JumpingClock, Slow
from tests.worker.stage import PATIENCE, stage, until


@asynccontextmanager
async def writing_its_wait(database_url, body):
    """A run whose wait is on its way into the store, and gets there when the store's `rows` are set."""
    store = Slow(database_url)
    store.turns.set()
    await store.open()
    async with stage(database_url) as on, Worker(store, workflows=[body], clock=JumpingClock(), lease="1000d"):
        run = await on.client.start(body)
        await until(lambda: store.waiting == ["rows"])
        yield on, store, run
    await store.close()


async def test_a_cancel_that_comes_while_the_wait_is_being_written_wakes_the_run(database_url):
    """Nothing else would wake the run: no alarm rings in this test."""

    @workflow
    async def body() -> None:
        await sleep("9s")

    async with writing_its_wait(database_url, body) as (on, store, run):
        await run.cancel()
        await until(lambda: store.delivered)
        store.rows.set()
        await on.until_status(run, "cancelled")
        assert await on.kinds(run) == ["started", "cancel", "ended"]


async def test_a_pause_that_comes_while_the_wait_is_being_written_lets_no_turn_be_taken(database_url):
    @workflow
    async def body() -> str:
        return str(await wait_for_signal("go", timeout="9s"))

    async with writing_its_wait(database_url, body) as (on, store, run):
        await on.client.pause(run.id)
        await run.signal("go", "on")
        await until(lambda: store.delivered > 1)
        store.rows.set()

        async def is_given_back() -> bool:
            return (await on.record(run)).owner is None

        await until(is_given_back)
        assert await on.kinds(run) == []
        await on.client.resume(run.id)
        assert await run.result(PATIENCE) == "on"


async def test_a_run_that_is_being_given_back_to_a_pause_gets_no_turn_although_it_stood_in_line(database_url, caplog):
    @workflow
    async def listening() -> str:
        return str(await wait_for_signal("go", timeout="9s"))

    store, gate = Slow(database_url), Gate()
    busy = body_of(gate.step())
    store.turns.set()
    store.rows.set()
    await store.open()
    worker = Worker(store, workflows=[listening, busy], clock=JumpingClock(), lease="1000d", concurrency=1)
    async with stage(database_url) as on, worker:
        run = await on.client.start(listening)
        await on.until_waiting(run)
        other = await on.client.start(busy)
        await until(lambda: gate.begun)
        await run.signal("go", "on")
        await until(lambda: worker._session.runs.line)
        store.rows.clear()
        store.waiting.clear()
        await on.client.pause(run.id)
        await until(lambda: "rows" in store.waiting)
        gate.go_on.set()
        await other.result(PATIENCE)
        await until(lambda: not worker._session.runs.line)
        store.rows.set()

        async def is_given_back() -> bool:
            return (await on.record(run)).owner is None

        await until(is_given_back)
        await on.client.resume(run.id)
        assert await run.result(PATIENCE) == "on"
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
    await store.close()


async def test_a_message_that_comes_while_a_long_wait_is_being_written_is_taken_once(database_url):
    """The run is parked then, and the message comes again with the claim that it causes."""

    @workflow
    async def patient() -> list[str]:
        return [str(await wait_for_signal("go")) for _ in range(2)]

    async with writing_its_wait(database_url, patient) as (on, store, run):
        await run.signal("go", "first")
        await until(lambda: store.delivered)
        store.rows.set()

        async def is_taken() -> bool:
            return "signal" in await on.kinds(run)

        await until(is_taken)
        await run.signal("go", "second")
        assert await run.result(PATIENCE) == ["first", "second"]


async def test_a_body_goes_on_without_replay_after_a_message_that_comes_while_a_long_wait_is_being_written(
    database_url,
):
    """A run that gets one message after another may meet this each time, and its journal grows with each."""
    began: list[int] = []

    @workflow
    async def patient() -> str:
        began.append(1)
        return str(await wait_for_signal("go"))

    async with writing_its_wait(database_url, patient) as (_, store, run):
        await run.signal("go", "on")
        await until(lambda: store.delivered)
        store.rows.set()
        assert await run.result(PATIENCE) == "on"
    assert began == [1]


class Stuck(Slow):
    """A store to which turns are long on their way: until they are there, the inbox holds what they take."""

    async def commit_turns(self, turns, *, now=None):
        self.waiting.append("turns")
        await self.turns.wait()
        return await SqliteStore.commit_turns(self, turns, now=now)


@workflow
async def hearing_two() -> list[str]:
    return [str(await wait_for_signal("go", timeout="9s")) for _ in range(2)]


@pytest.mark.parametrize("kind", [Stuck, Slow], ids=["until it is written", "until that is known"])
@pytest.mark.parametrize("is_paused", [False, True], ids=["", "and a pause between"])
async def test_what_comes_while_a_turn_is_being_committed_belongs_to_the_next(database_url, kind, is_paused):
    store = kind(database_url)
    store.rows.set()
    await store.open()
    async with stage(database_url) as on, Worker(store, workflows=[hearing_two], clock=JumpingClock(), lease="1000d"):
        run = await on.client.start(hearing_two)
        await on.until_waiting(run)
        await run.signal("go", "first")
        await until(lambda: store.waiting[-1] == "turns")
        if is_paused:
            await on.client.pause(run.id)
        await run.signal("go", "second")
        if is_paused:
            await on.client.resume(run.id)
        seen = store.looks
        await until(lambda: store.looks > seen)
        store.turns.set()
        assert await run.result(PATIENCE) == ["first", "second"]
        assert [kind for kind in await on.kinds(run) if kind == "signal"] == ["signal"] * 2
    await store.close()
