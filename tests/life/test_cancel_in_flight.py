"""Cancels that find a step in flight, on every store."""

from __future__ import annotations

import asyncio

import holdfast
from holdfast import AsyncClient, RunStatus, Worker, step, workflow


async def test_a_cancel_reaches_a_step_in_flight(url):
    begun = asyncio.Event()
    ended: list[str] = []

    @step
    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    @workflow
    async def hanging() -> None:
        await hang()

    async with AsyncClient(url) as client, Worker(client, workflows=[hanging]):
        run = await client.start(hanging)
        await begun.wait()
        await run.cancel()
        assert await run.wait(timeout=30) is RunStatus.CANCELLED
    assert ended == ["cancelled"]


async def test_a_forced_cancel_takes_a_run_away_from_its_worker(url):
    begun = asyncio.Event()

    @step
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    async def hanging() -> None:
        with holdfast.shield():
            await hang()

    async with AsyncClient(url) as client, Worker(client, workflows=[hanging], grace="1s"):
        run = await client.start(hanging)
        await begun.wait()
        assert await run.cancel(force=True)
        assert (await run.refresh()).status is RunStatus.CANCELLED
