"""What the worker processes of these tests find by themselves. Steps say what they do in files outside the store."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import holdfast
from holdfast import Retry, current_step, step, workflow

FOLDER = Path(os.environ["ERRANDS_FOLDER"])


def note(what: str) -> None:
    """A line that stays, whatever happens to the process."""
    info = current_step()
    line = "\t".join([what, info.run_id, info.key, str(os.getpid()), repr(time.time())])
    descriptor = os.open(FOLDER / f"notes-{os.getpid()}.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


@step(retry=Retry(attempts=1))
async def work(seconds: float) -> int:
    """Real work, for so long; returns the process that did it."""
    note("begin")
    await asyncio.sleep(seconds)
    note("end")
    return os.getpid()


@step(retry=Retry(attempts=1))
async def until_allowed() -> int:
    """Ends when the test says so."""
    note("begin")
    while not (FOLDER / "gate").exists():
        await asyncio.sleep(0.01)
    note("end")
    return os.getpid()


@workflow
async def errand(number: int) -> list[int]:
    return [await work(0.05) for _ in range(3)]


@workflow
async def gated() -> list[int]:
    return [await work(0), await until_allowed(), await work(0)]


@workflow
async def nap() -> int:
    """Asleep for so short a time that its worker keeps it, or until somebody wakes it."""
    await holdfast.wait_for_signal("wake", timeout="9s", default=None)
    return await work(0)
