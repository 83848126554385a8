"""Nothing happens before the turn that asked for it is durable, and a turn whose answer was lost counts once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import Retry, StoreAway, Worker, sleep, step, workflow
from holdfast.define import Workflow
from holdfast.model import Turn, decode_entries
from holdfast.store import SqliteStore
from tests.worker.stage import PATIENCE, Stage, stage, until


class Gated(SqliteStore):
    """A store whose commits wait until they are let through, or happen and lose their answer."""

    def __init__(self, url: str) -> None:
        super().__init__(url.removeprefix("sqlite:///"), url, "default")
        self.gate = asyncio.Event()
        self.waiting: list[list[str]] = []
        self.sent: list[bytes] = []
        self.answers_to_lose = 0

    def commit_turns(self, turns: Sequence[Turn], *, now: int | None = None) -> Awaitable[list[bool]]:
        self.waiting.append([entry.kind for turn in turns for entry in decode_entries(turn.data)])
        self.sent.extend(turn.data for turn in turns)
        return self._later(turns, now)

    async def _later(self, turns: Sequence[Turn], now: int | None) -> list[bool]:
        await self.gate.wait()
        answers = await super().commit_turns(turns, now=now)
        if self.answers_to_lose:
            self.answers_to_lose -= 1
            raise StoreAway("the answer was lost")
        return answers


@asynccontextmanager
async def gated(url: str, body: Workflow[..., Any]) -> AsyncIterator[tuple[Stage, Gated]]:
    """A stage whose one worker writes through such a store."""
    store = Gated(url)
    await store.open()
    try:
        async with stage(url) as on, Worker(store, workflows=[body]):
            yield on, store
    finally:
        await store.close()


@pytest.fixture
def executed() -> list[str]:
    return []


@pytest.fixture
def two_steps(executed):
    @step
    async def first() -> str:
        executed.append("first")
        return "1"

    @step
    async def second(text: str) -> str:
        executed.append("second")
        return text + "2"

    @workflow
    async def body() -> str:
        return await second(await first())

    return body


async def settle() -> None:
    """Let everything that could happen now, happen."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_step_does_not_begin_before_the_turn_that_asked_for_it_is_durable(database_url, two_steps, executed):
    async with gated(database_url, two_steps) as (on, store):
        run = await on.client.start(two_steps)
        await until(lambda: store.waiting)
        await settle()
        assert executed == ["first"]
        store.gate.set()
        assert await run.result(PATIENCE) == "12"
    assert executed == ["first", "second"]


async def test_a_step_of_a_workflow_tried_again_does_not_begin_before_that_is_durable(database_url, executed):
    @step(retry=Retry(attempts=1))
    async def shaky() -> None:
        executed.append("shaky")
        raise ConnectionError

    @workflow(retry=Retry(attempts=2, initial=0))
    async def body() -> None:
        await shaky()

    async with gated(database_url, body) as (on, store):
        run = await on.client.start(body)
        await until(lambda: store.waiting)
        await settle()
        assert executed == ["shaky"]
        store.gate.set()
        await on.until_status(run, "failed")


async def test_an_end_is_not_seen_before_it_is_durable(database_url, two_steps):
    async with gated(database_url, two_steps) as (on, store):
        run = await on.client.start(two_steps)
        await until(lambda: store.waiting)
        assert (await on.record(run)).status == "running"
        store.gate.set()
        await run.result(PATIENCE)


async def test_a_retry_does_not_begin_before_the_failed_attempt_is_durable(database_url, executed):
    @step(retry=Retry(attempts=2, initial=0))
    async def shaky() -> str:
        executed.append("shaky")
        if len(executed) == 1:
            raise ConnectionError
        return "at last"

    @workflow
    async def body() -> str:
        return await shaky()

    async with gated(database_url, body) as (on, store):
        run = await on.client.start(body)
        await until(lambda: store.waiting)
        await settle()
        assert executed == ["shaky"]
        store.gate.set()
        assert await run.result(PATIENCE) == "at last"


async def test_a_turn_whose_answer_was_lost_is_sent_again_byte_for_byte_and_counts_once(
    database_url, two_steps, executed
):
    async with gated(database_url, two_steps) as (on, store):
        store.gate.set()
        store.answers_to_lose = 2
        run = await on.client.start(two_steps)
        assert await run.result(PATIENCE) == "12"
        assert (await on.kinds(run)).count("step_completed") == 2
    assert executed == ["first", "second"]
    assert store.sent[0] == store.sent[1] == store.sent[2]


async def test_results_that_arrive_while_a_turn_is_uncommitted_belong_to_the_next_one(database_url):
    go_on = asyncio.Event()

    @step
    async def one() -> int:
        return 1

    @step
    async def two() -> int:
        await go_on.wait()
        return 2

    @workflow
    async def body() -> int:
        return sum(await asyncio.gather(one(), two()))

    async with gated(database_url, body) as (on, store):
        run = await on.client.start(body)
        await until(lambda: store.waiting)
        go_on.set()
        await settle()
        assert len(store.waiting) == 1
        store.gate.set()
        assert await run.result(PATIENCE) == 3
        assert len(await on.store.read_journal(run.id)) == 2


async def test_a_wait_costs_one_commit_more_for_its_firing(database_url):
    @workflow
    async def body() -> str:
        await sleep("10ms")
        return "woke"

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await run.result(PATIENCE)
        assert len(await on.store.read_journal(run.id)) == 1
