# mypy: ignore-errors
"""Holdfast.

One process, whose worker's concurrency is the number of runs at once. All runs start in one call, and each result is
awaited. Python's collector is set as docs/deploy.md says for a process of one's own.
"""

import asyncio
import gc

from work import AT_ONCE, URL, four_steps, timed

import holdfast
from holdfast import AsyncClient, Worker

body = four_steps(holdfast.step, holdfast.workflow)


async def main():
    async with AsyncClient(URL) as client, Worker(client, workflows=[body], concurrency=AT_ONCE):

        async def execute_all(runs):
            handles = await client.start_many(body, [(number,) for number in range(runs)])
            await asyncio.gather(*(run.result() for run in handles))

        await timed(execute_all)


gc.set_threshold(10_000, 10, 10)
gc.freeze()
asyncio.run(main())
