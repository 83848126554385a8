"""Suspects wait for each other no longer than it takes to see that the one at work is innocent."""

from __future__ import annotations

import asyncio

from holdfast import step, workflow
from holdfast.model import Lane, instant_of
from tests.worker.stage import PATIENCE, stage, until

SOON = 60_000
"""Microseconds."""


async def test_a_suspect_waits_longer_the_longer_the_one_at_work_takes(database_url):
    flying: list[str] = []
    go_on = asyncio.Event()

    @step
    async def act(name: str) -> None:
        flying.append(name)
        await go_on.wait()

    @workflow
    async def body(name: str) -> None:
        await act(name)

    lane = Lane("body", "1")
    async with stage(database_url) as on:
        runs = [await on.client.start(body, str(n)) for n in range(2)]
        for n in range(2):
            await on.store.register_worker(f"dead-{n}", [lane], 1, now=on.clock.now())
            assert len(await on.store.claim_runs(f"dead-{n}", [lane], 2, now=on.clock.now())) == 2
            on.skip("1s")
            await on.store.reap_workers("somebody", now=on.clock.now())
        async with on.worker(body):
            await until(lambda: flying)
            waiting = runs[1 - int(flying[0])]

            async def pause() -> int:
                due_at = (await on.record(waiting)).due_at
                assert due_at is not None
                return instant_of(due_at, what="due") - on.clock.now()

            first = await pause()
            on.skip("10s")
            while (later := await pause()) < SOON:
                await asyncio.sleep(0)
            go_on.set()
            on.skip("1s")
            for run in runs:
                await run.result(PATIENCE)
        assert first < SOON < later
