"""What becomes of open children, waits and received messages when a run is tried again from a cut."""

from __future__ import annotations

import asyncio

import holdfast
from holdfast import Retry, RunFilter, step, workflow
from holdfast.testing import Environment
from tests.worker.stage import ONCE

AGAIN = Retry(attempts=3, kind="fixed", initial="60s")
tries: list[str] = []
began: list[str] = []
tokens: list[str] = []


@step(retry=ONCE)
async def fails_first() -> str:
    tries.append("try")
    if len(tries) < 2:
        raise ValueError("not yet")
    return "done"


def forget() -> None:
    tries.clear()
    began.clear()
    tokens.clear()


@workflow
async def fails_once() -> str:
    tries.append("child")
    if len(tries) < 2:
        raise ValueError("not yet")
    return "fine"


@workflow
async def takes_a_while() -> str:
    began.append(holdfast.current_run().id)
    await count()
    await holdfast.sleep("5s")
    return "slow"


@step
async def count() -> None:
    began.append("counted")


@workflow
async def lasts() -> str:
    await holdfast.sleep("2h")
    return "long"


@workflow
async def listens() -> object:
    return await holdfast.wait_for_signal("said")


@workflow(retry=AGAIN)
async def hears() -> object:
    try:
        await fails_first()
    except ValueError:
        await holdfast.wait_for_signal("go")
        raise
    return await holdfast.wait_for_signal("go")


@workflow(retry=AGAIN)
async def only_child() -> str:
    return await fails_once()


@workflow(retry=AGAIN)
async def two_children() -> list[str]:
    one, other = await asyncio.gather(fails_once(), takes_a_while(), return_exceptions=True)
    if isinstance(one, BaseException):
        raise one
    assert isinstance(other, str)
    return [one, other]


@workflow(retry=AGAIN)
async def child_beside() -> str:
    child = lasts.start()
    await fails_first()
    return await child


@workflow(retry=AGAIN)
async def speaks() -> object:
    child = listens.start()
    await fails_first()
    child.signal("said", "hello")
    return await child


@workflow
async def lasts_and_listens() -> object:
    await holdfast.sleep("2h")
    return await holdfast.wait_for_signal("said", timeout="1s", default="nothing")


@workflow(retry=AGAIN)
async def speaks_first() -> object:
    child = lasts_and_listens.start()
    child.signal("said", "hello")
    await fails_first()
    return await child


@workflow(retry=AGAIN)
async def hooked() -> object:
    hook = holdfast.hook(name="answer")
    tokens.append(hook.token)
    await fails_first()
    return await hook.wait()


@workflow(retry=AGAIN)
async def hooked_twice() -> object:
    hook = holdfast.hook(name="answer")
    tokens.append(hook.token)
    try:
        await fails_first()
    except ValueError:
        await hook.wait()
        raise
    return await hook.wait()


async def test_a_signal_that_was_taken_after_the_cut_is_there_for_the_next_try() -> None:
    forget()
    async with Environment([hears]) as env:
        run = await env.client.start(hears)
        await env.until_waiting(run)
        await env.client.signal(run.id, "go", "once")
        assert await run.result(timeout="1h") == "once"


async def test_a_signal_that_the_next_try_has_taken_is_not_delivered_twice() -> None:
    forget()
    async with Environment([hears]) as env:
        run = await env.client.start(hears)
        await env.until_waiting(run)
        await env.client.signal(run.id, "go", "once")
        await run.result(timeout="1h")
        again = [entry for entry in await env.client.journal(run.id) if entry.kind == "signal"]
        assert [entry.value for entry in again] == ["once", "once"]


async def test_a_failed_child_that_is_all_a_run_asked_for_is_started_again_by_the_next_try() -> None:
    forget()
    async with Environment([only_child, fails_once]) as env:
        run = await env.client.start(only_child)
        assert await run.result(timeout="1h") == "fine"


async def test_a_child_that_completed_after_the_cut_is_not_begun_again() -> None:
    forget()
    async with Environment([two_children, fails_once, takes_a_while]) as env:
        run = await env.client.start(two_children)
        assert await run.result(timeout="1h") == ["fine", "slow"]
        assert began.count("counted") == 1


async def test_the_end_of_a_child_that_was_called_off_is_not_taken_for_that_of_the_next() -> None:
    forget()
    async with Environment([child_beside, lasts]) as env:
        run = await env.client.start(child_beside, id="order~7")
        assert await run.result(timeout="1d") == "long"
        found = [str(one.status) async for one in env.client.runs(RunFilter(parent=run.id))]
        assert sorted(found) == ["cancelled", "completed"]


async def test_a_child_handle_speaks_to_the_child_of_this_try() -> None:
    forget()
    async with Environment([speaks, listens]) as env:
        run = await env.client.start(speaks, id="speaks")
        assert await run.result(timeout="1h") == "hello"
        found = [str(one.status) async for one in env.client.runs(RunFilter(parent=run.id))]
        assert sorted(found) == ["cancelled", "completed"]


async def test_a_hook_can_be_resumed_while_its_run_waits_to_be_tried_again() -> None:
    forget()
    async with Environment([hooked]) as env:
        run = await env.client.start(hooked)
        await env.skip("5s")
        await env.client.resume_hook(tokens[0], "yes")
        assert await run.result(timeout="1h") == "yes"


async def test_a_payload_that_a_hook_had_got_is_there_for_the_next_try() -> None:
    forget()
    async with Environment([hooked_twice]) as env:
        run = await env.client.start(hooked_twice)
        await env.skip("5s")
        await env.client.resume_hook(tokens[0], "yes")
        assert await run.result(timeout="1h") == "yes"


async def test_a_child_that_is_started_again_gets_the_messages_of_the_one_before_it() -> None:
    forget()
    async with Environment([speaks_first, lasts_and_listens]) as env:
        run = await env.client.start(speaks_first)
        assert await run.result(timeout="1d") == "hello"
