"""While a worker that stops waits for its steps, what is sent to their runs is heard; nothing more is begun."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from holdfast import StoreAway, step, wait_for_signal, workflow
from holdfast.client import AsyncRun
from holdfast.define import Workflow
from tests.worker.gates import Gate, body_of
from tests.worker.stage import PATIENCE, Stage, stage, until


@contextlib.asynccontextmanager
async def draining(on: Stage, gate: Gate, body: Workflow[[], Any]) -> AsyncIterator[AsyncRun[Any]]:
    """A run of it on a worker that was told to stop and waits for its step, for a day."""
    run = await on.client.start(body)
    worker = on.worker(body, grace="1d")
    async with worker:
        await until(lambda: gate.begun)
        worker.stop()
        await until(lambda: worker._session.runs.is_stopping)
        try:
            yield run
        finally:
            gate.go_on.set()


async def test_a_cancel_ends_a_step_that_a_stopping_worker_waits_for(database_url):
    gate = Gate()
    async with stage(database_url) as on, draining(on, gate, body_of(gate.step())) as run:
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"
        await until(lambda: gate.cancelled)


async def test_the_cleanup_after_a_cancel_in_a_stopping_worker_is_left_to_another_worker(database_url):
    gate, cleaned = Gate(), []
    gated = gate.step()

    @step
    async def clean() -> None:
        cleaned.append(1)

    @workflow
    async def body() -> None:
        try:
            await gated()
        finally:
            await clean()

    async with stage(database_url) as on:
        async with draining(on, gate, body) as run:
            await run.cancel()
            await until(lambda: gate.cancelled)
        assert cleaned == []
        assert (await on.record(run)).owner is None
        async with on.worker(body):
            assert await run.wait(PATIENCE) == "cancelled"
    assert cleaned == [1]
    assert gate.begun == 1


async def test_a_signal_is_taken_in_beside_a_step_that_a_stopping_worker_waits_for(database_url):
    gate = Gate()
    gated = gate.step()

    @workflow
    async def body() -> list[Any]:
        return list(await asyncio.gather(gated(), wait_for_signal("word")))

    async with stage(database_url) as on:
        async with draining(on, gate, body) as run:
            await run.signal("word", "heard")

            async def is_heard() -> bool:
                return "signal" in await on.kinds(run)

            await until(is_heard)
        assert (await on.record(run)).status == "completed"


async def test_a_stopping_worker_that_still_takes_in_messages_claims_no_run(database_url):
    gate = Gate()
    body = body_of(gate.step())
    async with stage(database_url) as on:
        async with draining(on, gate, body) as run:
            other = await on.client.start(body)
            await run.cancel()
            assert await run.wait(PATIENCE) == "cancelled"
        assert (await on.record(other)).status == "pending"
    assert gate.begun == 1


async def test_a_stopping_worker_takes_in_messages_once_the_store_is_back(database_url, monkeypatch):
    gate, refused = Gate(), []

    async def away(worker_id: str, *, known: Any = ()) -> Any:
        refused.append(worker_id)
        raise StoreAway("gone for a moment")

    async with stage(database_url) as on, draining(on, gate, body_of(gate.step())) as run:
        with monkeypatch.context() as patched:
            patched.setattr(on.store, "read_inbox", away)
            await run.cancel()
            await until(lambda: len(refused) > 1)
        assert await run.wait(PATIENCE) == "cancelled"
        await until(lambda: gate.cancelled)
