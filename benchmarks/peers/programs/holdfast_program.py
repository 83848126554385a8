# mypy: ignore-errors
"""Holdfast.

One process, its worker's concurrency being the runs at once. Starts are one call; each run's result is waited for.
Python's collector is set as docs/deploy.md says for a worker in a process of one's own.
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
