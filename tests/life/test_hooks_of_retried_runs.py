"""Hooks of runs that are tried again: their tokens are out, and whoever comes with one meanwhile is heard."""

from __future__ import annotations

import asyncio
from typing import Any

import holdfast
from holdfast import AsyncClient, Retry, Worker, step, workflow
from holdfast.testing import Environment, takes

_tries: dict[str, int] = {}


@step(retry=Retry(attempts=1))
async def pay() -> None:
    key = holdfast.current_step().idempotency_key
    _tries[key] = _tries.get(key, 0) + 1
    if _tries[key] == 1:
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


async def test_a_hook_made_in_the_turn_that_fails_can_be_resumed_on_every_store(url: str):
    async with AsyncClient(url) as client, Worker(client, workflows=[asking]):
        run = await client.start(asking)
        async for _ in run.changes():
            if await run.value("token", default=None) is not None:
                break
        await client.resume_hook(await run.value("token"), "yes")
        await run.cancel(force=True)


@step
async def look_up(name: str) -> None: ...


async def _approved(name: str) -> Any:
    if name == "first":
        await pay()
    else:
        # Only the first of them is asked for before the other branch fails, so only its result is kept.
        await look_up(name)
        await look_up(name)
    link = holdfast.hook(name=name)
    holdfast.set_value(name, link.token)
    return await link.wait()


@workflow(retry=Retry(attempts=2, initial="1h", jitter=0))
async def approvals() -> list[Any]:
    """In its first try the second branch alone comes to its hook, in the next one it is later than the first."""
    both = [_approved("first"), asyncio.wait_for(_approved("second"), 60)]
    found = await asyncio.gather(*both, return_exceptions=True)
    for one in found:
        if isinstance(one, ConnectionError):
            raise one
    return [str(one) for one in found]


async def test_a_token_resumes_its_own_hook_even_if_the_next_try_makes_hooks_in_another_order():
    async with Environment(approvals, stubs={look_up: takes("5s", None)}) as env:
        run = await env.client.start(approvals)
        await env.skip("15s")
        token = await run.value("second")
        await env.skip("2m")
        await env.client.resume_hook(token, "yes to the second")
        await env.skip("1h")
        assert await run.value("second") == token
        await env.client.resume_hook(await run.value("first"), "yes to the first")
        assert await run.result() == ["yes to the first", "yes to the second"]


@workflow
async def approvals_once() -> list[Any]:
    found = await asyncio.gather(_approved("first"), _approved("second"), return_exceptions=True)
    for one in found:
        if isinstance(one, ConnectionError):
            raise one
    return found


async def test_a_hook_keeps_its_payload_in_a_retry_that_makes_hooks_in_another_order():
    async with Environment(approvals_once, stubs={look_up: takes("5s", None)}) as env:
        run = await env.client.start(approvals_once)
        await env.skip("15s")
        token = await run.value("second")
        await env.client.resume_hook(token, "yes to the second")
        await run.wait()
        again = await env.client.retry(run.id)
        await env.skip("1m")
        assert await again.value("second") == token
        await env.client.resume_hook(await again.value("first"), "yes to the first")
        assert await again.result() == ["yes to the first", "yes to the second"]


async def test_an_unused_token_still_resumes_its_own_hook_in_a_retry_by_hand():
    once = workflow(name="approvals_tried_once")(approvals.fn)
    async with Environment(once, stubs={look_up: takes("5s", None)}) as env:
        run = await env.client.start(once)
        await env.skip("15s")
        token = await run.value("second")
        assert await run.wait() == "failed"
        again = await env.client.retry(run.id)
        await env.skip("15s")
        assert await again.value("second") == token
        await env.client.resume_hook(await again.value("first"), "yes to the first")
        await env.client.resume_hook(token, "yes to the second")
        assert await again.result() == ["yes to the first", "yes to the second"]
