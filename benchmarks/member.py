"""One worker process of a fleet: it prints `ready` when it serves, and leaves when its input is closed.

python -m benchmarks.member URL CONCURRENCY PAUSE

Each step waits for PAUSE seconds.
"""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast import Worker
from holdfast.cli.serving import spare_the_collector

from .subjects import four_steps


async def _work(url: str, concurrency: int, pause: float) -> None:
    spare_the_collector()
    async with Worker(url, workflows=[four_steps(lambda: None, pause)], concurrency=concurrency):
        os.write(1, b"ready\n")
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_work(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
