"""A run whose turn was refused although no other worker has it must not wait for the worker that dropped it."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import step, workflow
from holdfast.model import Claimed, RunStatus, Turn, encode_entries
from holdfast.worker.upkeep import Upkeep
from tests.worker.stage import PATIENCE, Stage, stage, until


@pytest.fixture(autouse=True)
def _nobody_looks_now_and_then(monkeypatch):
    monkeypatch.setattr(Upkeep, "run", lambda self: asyncio.sleep(3600))


async def late_turn(on: Stage, run_id: str) -> None:
    """One of a worker that had the run before and gave it back: it was under way for long, and is accepted."""
    row = Turn(run_id=run_id, seq=0, epoch=0, at=on.clock.now(), data=encode_entries([Claimed(0, "earlier")]))
    assert await on.store.commit_turns([row]) == [True]


async def test_a_run_whose_turn_is_refused_is_claimed_again_if_its_worker_still_owns_it(database_url):
    began, may_end = asyncio.Event(), asyncio.Event()

    @step
    async def work() -> str:
        began.set()
        await may_end.wait()
        return "done"

    @workflow
    async def body() -> str:
        return await work()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(began.is_set)
        await late_turn(on, run.id)
        may_end.set()
        assert await run.wait(PATIENCE) is RunStatus.COMPLETED
