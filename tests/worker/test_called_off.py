"""Children and steps that are cancelled before they began."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast import Retry, RunFailed, RunStatus, current_run, shield, step, wait_for_signal, workflow
from holdfast.define import StepInfo
from holdfast.model import Lane
from tests.worker.stage import PATIENCE, stage, until


async def test_a_child_cancelled_before_it_began_never_begins_though_a_worker_dies_with_it(database_url):
    begun: list[str] = []

    @step
    async def act() -> None:
        begun.append(current_run().id)

    @step(retry=Retry(attempts=1))
    async def refuse_the_first() -> None:
        if current_run().id == current_run().origin_id:
            raise ConnectionError("not now")

    @workflow
    async def child() -> None:
        with shield():
            await act()
            await wait_for_signal("home")

    @workflow
    async def parent() -> None:
        child.options(key="k").start()
        await wait_for_signal("sent")
        await refuse_the_first()
        await wait_for_signal("never")

    async with stage(database_url) as on:
        run = await on.client.start(parent)
        async with on.worker(parent, child):
            await on.until_waiting(run)
            await until(lambda: len(begun) == 1)
            await run.signal("sent")
            with pytest.raises(RunFailed):
                await run.result(PATIENCE)
            again = await on.client.retry(run.id)
            await on.until_waiting(again)
        waiting = await on.client.get_run(child, key="k")
        await on.client.cancel(again.id, force=True)
        # A worker claims the child in order to end it, and dies.
        lane = Lane("child", "1")
        await on.store.register_worker("dead", [lane], 1, now=on.clock.now())
        assert await on.store.claim_runs("dead", [lane], 1, run_id=waiting.id, now=on.clock.now())
        on.skip("1s")
        await on.store.reap_workers("somebody", now=on.clock.now())
        async with on.worker(parent, child):
            assert await waiting.wait(PATIENCE) is RunStatus.CANCELLED
    assert len(begun) == 1
    assert waiting.id not in begun


async def test_a_step_cancelled_before_its_thread_has_come_never_begins(database_url):
    attempts: list[StepInfo] = []
    go_on, left = asyncio.Event(), asyncio.Event()
    begun: list[str] = []

    @step
    def act() -> None:
        begun.append("act")

    @workflow
    async def acting() -> None:
        await act()

    @asynccontextmanager
    async def slow(info: StepInfo) -> AsyncIterator[None]:
        attempts.append(info)
        await go_on.wait()
        try:
            yield
        finally:
            left.set()

    async with stage(database_url) as on, on.worker(acting, middleware=[slow]):
        run = await on.client.start(acting)
        await until(lambda: attempts)
        await run.cancel()
        assert await run.wait(PATIENCE) is RunStatus.CANCELLED
        # The end is in the database a moment before the worker has its answer and tells the step.
        await until(lambda: attempts[0].cancelled)
        go_on.set()
        await left.wait()
    assert begun == []
