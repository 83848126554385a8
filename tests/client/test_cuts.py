"""Where a retry or a fork cuts a history that holds children, waits or a machine's checkpoint."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import Done, Machine, Next, Retry, RunFailed, step, workflow
from holdfast.testing import Environment

counted: list[int] = []
is_broken: list[bool] = []


def start(ctx: Any) -> Any:
    ctx["count"] = ctx.get("count", 0) + 1
    counted.append(ctx["count"])
    if ctx["count"] == 150 and is_broken:
        raise ValueError("broken")
    if ctx["count"] == 200:
        return Done(200)
    return Next("start", after="1h" if ctx["count"] == 101 else None)


long_machine = Machine("long_machine", {"start": start}, retry=Retry(attempts=1))


@step
async def note(text: str) -> str:
    return text


@workflow
async def child() -> str:
    await holdfast.sleep("1h")
    return "child"


@workflow
async def waits_for_both() -> list[Any]:
    one = child.start()
    event = asyncio.create_task(holdfast.wait_for_event("happened"))
    await note("first")
    await note("second")
    return [await one, await event]


async def test_a_machine_that_failed_is_retried_from_its_checkpoint() -> None:
    counted.clear()
    is_broken.append(True)
    async with Environment([long_machine]) as env:
        run = await env.client.start(long_machine, None)
        with pytest.raises(RunFailed):
            await run.result(timeout="1d")
        is_broken.clear()
        again = await env.client.retry(run.id)
        assert await again.result(timeout="1d") == 200
        assert counted.count(1) == 1


async def test_a_machine_that_was_stopped_right_behind_its_checkpoint_is_retried_from_there() -> None:
    counted.clear()
    async with Environment([long_machine]) as env:
        run = await env.client.start(long_machine, None)
        await env.skip("1s")
        await env.client.cancel(run.id, force=True)
        again = await env.client.retry(run.id)
        assert await again.result(timeout="1d") == 200
        assert counted.count(1) == 1


async def test_a_machine_can_be_forked_at_the_state_behind_its_checkpoint() -> None:
    counted.clear()
    async with Environment([long_machine]) as env:
        run = await env.client.start(long_machine, None)
        await env.skip("1s")
        other = await env.client.fork(run.id, at="start:100")
        assert await other.result(timeout="1d") == 200
        assert (counted.count(1), counted.count(101)) == (1, 2)


async def test_a_fork_has_a_child_and_a_wait_of_its_own_for_those_open_at_the_cut() -> None:
    async with Environment([waits_for_both, child]) as env:
        run = await env.client.start(waits_for_both)
        await env.skip("1s")
        other = await env.client.fork(run.id, at="note:1")
        await env.skip("1s")
        await env.client.publish("happened", "now")
        assert await other.result(timeout="1d") == ["child", "now"]


async def test_a_signal_is_not_set_aside_by_a_wait_that_it_does_not_match() -> None:
    async with Environment([two_kinds]) as env:
        run = await env.client.start(two_kinds)
        await env.until_waiting(run)
        await env.client.signal(run.id, "said", {"kind": 1})
        await env.client.signal(run.id, "said", {"kind": "text"})
        assert await run.result() == [{"kind": "text"}, {"kind": 1}]


@workflow
async def two_kinds() -> list[Any]:
    texts = asyncio.create_task(holdfast.wait_for_signal("said", match={"kind": "text"}, type=dict[str, str]))
    numbers = asyncio.create_task(holdfast.wait_for_signal("said", match={"kind": 1}, type=dict[str, int]))
    return [await texts, await numbers]
