"""A worker process that shares nothing: it prints `ready`, executes runs from a database in its own memory when it is
told to, prints `done`, and leaves when its input is closed.

python -m benchmarks.loner RUNS CONCURRENCY
"""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast import AsyncClient, Worker
from holdfast.cli.serving import spare_the_collector

from .subjects import four_steps


async def _work(runs: int, concurrency: int) -> None:
    spare_the_collector()
    left, ended = runs, asyncio.Event()

    def done() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            ended.set()

    body = four_steps(done)
    async with AsyncClient("sqlite:///:memory:") as client:
        await client.start_many(body, [(number,) for number in range(runs)])
        os.write(1, b"ready\n")
        await asyncio.to_thread(sys.stdin.readline)
        async with Worker(client, workflows=[body], concurrency=concurrency):
            await ended.wait()
            os.write(1, b"done\n")
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_work(int(sys.argv[1]), int(sys.argv[2])))
