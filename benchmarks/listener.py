"""A worker in its own process: it prints when each run's first step begins, and leaves when its input is closed.

python -m benchmarks.listener URL
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from holdfast import Worker

from .subjects import one_step


def _begun(number: int) -> None:
    os.write(1, b"%d\n" % time.time_ns())


async def _listen(url: str) -> None:
    async with Worker(url, workflows=[one_step(_begun)]):
        os.write(1, b"ready\n")
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_listen(sys.argv[1]))
