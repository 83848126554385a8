"""A timer that was due before a step ended or a message was sent comes first, whenever its worker hears of both."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast import Worker, step, wait_for_signal, workflow
from holdfast.define import Workflow
from holdfast.model import Message
from holdfast.worker.admission import Admission
from tests.worker.bookings import booked
from tests.worker.samples import nothing
from tests.worker.stage import PATIENCE, SkippingStore, Stage, stage, until


class Slow(SkippingStore):
    """A store that answers when it may: turns, and the looks into the inbox before a timer fires."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.sent = self.looked = self.delivered = 0
        self.may_answer, self.may_look = asyncio.Event(), asyncio.Event()
        self.may_answer.set()
        self.may_look.set()

    async def commit_turns(self, turns, *, now=None):
        answers = await super().commit_turns(turns, now=now)
        self.sent += 1
        await self.may_answer.wait()
        return answers

    async def read_inbox(self, worker_id: str, *, known: Sequence[int] = ()) -> list[Message]:
        found = await super().read_inbox(worker_id, known=known)
        self.delivered += len(found)
        task = asyncio.current_task()
        if task is not None and task.get_coro().__name__ == "_listen":
            self.looked += 1
            await self.may_look.wait()
        return found


class Race:
    """A timer of a minute beside a step that the test ends, while the turn of another step is under way."""

    def __init__(self) -> None:
        self.may_end, self.has_ended = asyncio.Event(), asyncio.Event()
        self.begun = 0

    def body(self) -> Workflow[[], str]:
        @step
        async def slower() -> None:
            self.begun += 1
            await self.may_end.wait()
            self.has_ended.set()

        @workflow(name="racing")
        async def racing() -> str:
            other = slower.start()
            try:
                async with asyncio.timeout(60):
                    await nothing()
                    await other
            except TimeoutError:
                return "timeout"
            return "result"

        return racing


@asynccontextmanager
async def slow(url: str, *workflows: Workflow[..., Any]) -> AsyncIterator[tuple[Stage, Slow, Worker]]:
    """A stage whose worker has a store of its own."""
    async with stage(url) as on:
        store = Slow(url, on.clock)
        await store.open()
        try:
            async with Worker(store, workflows=workflows, clock=on.clock, lease="1000d") as worker:
                yield on, store, worker
        finally:
            await store.close()


async def test_a_timer_comes_before_the_result_of_a_step_that_ended_later_if_both_waited_for_a_turn(database_url):
    race = Race()
    body = race.body()
    async with slow(database_url, body) as (on, store, _):
        store.may_answer.clear()
        run = await on.client.start(body)
        await until(lambda: store.sent)
        on.skip("2m")
        race.may_end.set()
        await race.has_ended.wait()
        store.may_answer.set()
        assert await run.result(PATIENCE) == "timeout"


async def test_a_result_comes_before_a_timer_that_was_due_later_if_both_waited_for_a_turn(database_url):
    race = Race()
    body = race.body()
    async with slow(database_url, body) as (on, store, _):
        store.may_answer.clear()
        run = await on.client.start(body)
        await until(lambda: store.sent)
        race.may_end.set()
        await race.has_ended.wait()
        on.skip("2m")
        store.may_answer.set()
        assert await run.result(PATIENCE) == "result"


async def test_a_timer_comes_before_the_result_of_a_step_that_ended_before_its_alarm_could_ring(database_url):
    """As when something has held up the loop: the step is next in line, and the alarm behind it."""
    race = Race()
    body = race.body()
    async with slow(database_url, body) as (on, store, _):
        run = await on.client.start(body)
        await until(lambda: store.sent)
        race.may_end.set()
        on.skip("2m")
        assert await run.result(PATIENCE) == "timeout"


async def test_a_timer_that_is_due_while_its_worker_stops_comes_before_a_result_that_comes_later(database_url):
    race = Race()
    body = race.body()
    async with slow(database_url, body) as (on, store, worker):
        store.may_answer.clear()
        run = await on.client.start(body)
        await until(lambda: store.sent)
        # From here on no alarm is set any more.
        worker.stop()
        store.may_answer.set()
        on.skip("2m")
        race.may_end.set()
        await worker.wait()
        assert await run.result(PATIENCE) == "timeout"


async def test_a_timer_comes_before_a_signal_that_was_sent_later_if_both_waited_for_a_turn(database_url):
    may_end = asyncio.Event()

    @step
    async def slower() -> None:
        await may_end.wait()

    @workflow
    async def body() -> str:
        other = slower.start()
        beside = asyncio.create_task(wait_for_signal("go", timeout="60s", default="late"))
        await nothing()
        await other
        return str(await beside)

    async with slow(database_url, body) as (on, store, _):
        store.may_answer.clear()
        run = await on.client.start(body)
        await until(lambda: store.sent)
        on.skip("2m")
        await run.signal("go", "in time")
        await until(lambda: store.delivered)
        store.may_answer.set()
        may_end.set()
        assert await run.result(PATIENCE) == "late"


async def test_a_timer_comes_before_the_result_of_a_transaction_that_ended_later_which_is_rolled_back(file):
    has_begun, may_end = threading.Event(), threading.Event()

    @step(transaction=True, timeout="1h")
    def books(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO bookings (id) VALUES ('a')")
        has_begun.set()
        may_end.wait(PATIENCE)

    @workflow
    async def body() -> str:
        try:
            async with asyncio.timeout(60):
                books()
        except TimeoutError:
            return "timeout"
        return "result"

    async with slow(file, body) as (on, _, _):
        run = await on.client.start(body)
        await until(has_begun.is_set)
        on.skip("2m")
        may_end.set()
        assert await run.result(PATIENCE) == "timeout"
    assert booked(file) == []


async def test_a_result_that_waits_for_a_look_when_its_worker_is_stopped_is_kept(database_url, monkeypatch):
    race = Race()
    gives_back = asyncio.Event()
    hand_back_all = Admission.hand_back_all

    def watched(self):
        hand_back_all(self)
        gives_back.set()

    monkeypatch.setattr(Admission, "hand_back_all", watched)

    @step
    async def deed() -> str:
        race.begun += 1
        await race.may_end.wait()
        return "done"

    @workflow
    async def body() -> str:
        pending = deed.start()
        await wait_for_signal("go", timeout="9s", default=None)
        return await pending

    async with slow(database_url, body) as (on, store, worker):
        run = await on.client.start(body)
        await until(lambda: race.begun)
        store.may_look.clear()
        on.skip("10s")
        await until(lambda: store.looked)
        worker.stop()
        race.may_end.set()
        await gives_back.wait()
        store.may_look.set()
        await worker.wait()
        async with on.worker(body):
            assert await run.result(PATIENCE) == "done"
    assert race.begun == 1
