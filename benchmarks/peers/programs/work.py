# mypy: ignore-errors
"""The work and its timing, the same for every engine in Python.

Each program is called with URL RUNS AT_ONCE POOL.
"""

import asyncio
import json
import sys
import time

URL = sys.argv[1]
RUNS, AT_ONCE, POOL = map(int, sys.argv[2:])


def four_steps(step, workflow):
    """A workflow of four empty steps, made with an engine's own decorators."""

    @step(name="reserve")
    async def reserve(number: int) -> int:
        return number + 1

    @step(name="charge")
    async def charge(number: int) -> int:
        return number + 1

    @step(name="pack")
    async def pack(number: int) -> int:
        return number + 1

    @step(name="ship")
    async def ship(number: int) -> int:
        return number + 1

    @workflow(name="four_steps")
    async def body(number: int) -> int:
        number = await reserve(number)
        number = await charge(number)
        number = await pack(number)
        return await ship(number)

    return body


async def in_lanes(execute, runs):
    """Execute this many runs in AT_ONCE lanes; each lane executes one after another."""
    numbers = iter(range(runs))

    async def lane():
        for number in numbers:
            await execute(number)

    await asyncio.gather(*(lane() for _ in range(AT_ONCE)))


async def timed(execute_all):
    """Warm up, then print how many seconds all runs took."""
    await execute_all(max(AT_ONCE, 5))
    began = time.perf_counter()
    await execute_all(RUNS)
    print(json.dumps({"seconds": time.perf_counter() - began}))
