"""How these tests wait: until something is so, and never for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from holdfast import AsyncClient, AsyncRun, RunEnded, RunStatus

PATIENCE = 60


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Until it is so. How long that takes is nobody's promise."""
    async with asyncio.timeout(PATIENCE):
        while not await is_so():
            await asyncio.sleep(0.005)


async def until_status(run: AsyncRun[Any], *status: RunStatus) -> None:
    async def is_there() -> bool:
        return (await run.refresh()).status in status

    await until(is_there)


async def until_waiting(run: AsyncRun[Any]) -> None:
    """Until the run waits, parked or in its worker's memory."""
    await until_status(run, RunStatus.WAITING)


async def waiting_for_its_deadline(client: AsyncClient, workflow: Any, *, is_paused: bool = False) -> AsyncRun[Any]:
    """A run that waits, with a deadline as soon as this machine can have it wait, or paused, before that."""
    for seconds in (1, 2, 4, 8, 16):
        run = await client.start(workflow, deadline=seconds)
        await until_status(run, RunStatus.WAITING, RunStatus.FAILED)
        with suppress(RunEnded):
            if is_paused:
                await client.pause(run.id)
            if run.status is RunStatus.WAITING:
                return run
    raise AssertionError("not even a run with 16 seconds to live gets as far as its wait")


async def kinds(client: AsyncClient, run_id: str) -> list[str]:
    """The kinds of the entries in a run's journal."""
    return [entry.kind for entry in await client.journal(run_id)]
