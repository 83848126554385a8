"""Hooks of runs that are tried again: their tokens are out, and whoever comes with one meanwhile is heard."""

from __future__ import annotations

from typing import Any

import holdfast
from holdfast import AsyncClient, Retry, Worker, step, workflow
from holdfast.testing import Environment

_tries: dict[str, int] = {}


@step(retry=Retry(attempts=1))
async def pay() -> None:
    run_id = holdfast.current_step().run_id
    _tries[run_id] = _tries.get(run_id, 0) + 1
    if _tries[run_id] == 1:
        raise ConnectionError("the bank is away")


@workflow(retry=Retry(attempts=2, initial="1h", jitter=0))
async def asking() -> Any:
    """Whether it is paid or not, it says by which token it can be answered, in that very turn."""
    try:
        await pay()
    finally:
        link = holdfast.hook(name="answer")
        holdfast.set_value("token", link.token)
    return await link.wait()


async def test_a_hook_made_in_the_turn_that_fails_is_resumed_in_the_pause_before_the_next_try():
    async with Environment(asking) as env:
        run = await env.client.start(asking)
        await env.skip("1m")
        await env.client.resume_hook(await run.value("token"), "yes")
        assert await run.result() == "yes"


async def test_such_a_hook_is_there_on_every_store(url: str):
    async with AsyncClient(url) as client, Worker(client, workflows=[asking]):
        run = await client.start(asking)
        async for _ in run.changes():
            if await run.value("token", default=None) is not None:
                break
        await client.resume_hook(await run.value("token"), "yes")
        await run.cancel(force=True)
