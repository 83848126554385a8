"""Children that their parent cancels through the handle that it holds."""

from __future__ import annotations

import asyncio
from asyncio import wait_for
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, Retry, RunCancelled, RunFilter, RunStatus, Worker, step, workflow
from holdfast.testing import Environment, assert_durable
from tests.life.waiting import until_waiting

cleaned: list[str] = []


@step
async def clean(run_id: str) -> None:
    cleaned.append(run_id)


@workflow
async def tidy() -> str:
    try:
        await holdfast.wait_for_signal("never")
    finally:
        await clean(holdfast.current_run().id)
    return "done"


@workflow
async def stubborn() -> str:
    try:
        await holdfast.wait_for_signal("never")
    except asyncio.CancelledError:
        return "as I like it"
    return "done"


@workflow
async def cancelling() -> list[Any]:
    child = tidy.start()
    await holdfast.wait_for_signal("end", timeout="1h", default=None)
    asked = [child.cancel(), child.cancel()]
    try:
        await child
    except RunCancelled as error:
        return [*asked, error.run_id == child.id, child.cancel()]
    return ["not cancelled"]


@workflow
def cancelling_in_a_plain_body() -> bool:
    child = tidy.start()
    child.cancel()
    try:
        child.result()
    except RunCancelled:
        return True
    return False


@workflow
async def cancelling_at_once(on_parent_end: Any) -> str:
    child = tidy.options(on_parent_end=on_parent_end).start()
    child.cancel()
    return type((await asyncio.gather(child, return_exceptions=True))[0]).__name__


@workflow
async def refused() -> str:
    child = stubborn.start()
    await holdfast.sleep("1m")
    child.cancel()
    return await child


@workflow
async def out_of_time() -> str:
    child = tidy.start()
    try:
        async with asyncio.timeout(60):
            await child
    except TimeoutError:
        return child.id
    return "no timeout"


@workflow
async def slow_to_end() -> None:
    try:
        await holdfast.wait_for_signal("never")
    finally:
        await holdfast.sleep("1h")


@workflow
async def given_a_second(how: str, options: dict[str, str]) -> list[Any]:
    begun, child = holdfast.now(), slow_to_end.options(**options).start()

    async def inside() -> None:
        await child

    waits: dict[str, Any] = {"itself": lambda: child, "gather": lambda: asyncio.gather(child), "task": inside}
    try:
        await wait_for(waits[how](), 1)
    except TimeoutError:
        return [child.id, holdfast.now() - begun == timedelta(seconds=1)]
    return ["no timeout"]


@workflow
async def given_no_time() -> str:
    try:
        await asyncio.wait_for(slow_to_end.start(), 0)
    except TimeoutError:
        return "out of time"
    return "no timeout"


@workflow
async def given_a_day() -> None:
    await wait_for(slow_to_end.start(), 86_400)


@workflow
async def cancelling_later() -> str:
    child = tidy.start()
    asyncio.get_running_loop().call_later(60, child.cancel)
    try:
        await child
    except RunCancelled as error:
        return error.run_id
    return "not cancelled"


@step(retry=Retry(attempts=1))
async def check() -> None: ...


@workflow
async def failing_meanwhile() -> str:
    child = slow_to_end.start()
    child.cancel()
    await check()
    return type((await asyncio.gather(child, return_exceptions=True))[0]).__name__


@workflow
async def answered() -> Any:
    return await holdfast.wait_for_signal("answer")


@workflow
async def joining(how: str, options: dict[str, str]) -> Any:
    other = answered.options(**options).start()
    await holdfast.sleep(0.01)
    if how == "cancels":
        other.cancel()
        return await other
    try:
        async with asyncio.timeout(0.01):
            return await other
    except TimeoutError:
        return "gave up"


async def test_waiting_for_a_child_that_was_cancelled_raises_run_cancelled_when_it_has_ended():
    async with Environment([cancelling, tidy]) as env:
        run = await env.client.start(cancelling)
        assert await run.result() == [True, True, True, False]
        [child] = [one async for one in env.client.runs(RunFilter(parent=run.id))]
        assert child.id in cleaned


async def test_the_parent_is_not_cancelled_with_its_child_on_any_store(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[cancelling, tidy]):
        run = await client.start(cancelling)
        await run.signal("end")
        assert await run.result(timeout=30) == [True, True, True, False]


async def test_a_plain_body_that_waits_for_a_cancelled_child_gets_run_cancelled():
    async with Environment([cancelling_in_a_plain_body, tidy]) as env:
        assert await (await env.client.start(cancelling_in_a_plain_body)).result() is True


async def test_a_child_that_is_cancelled_in_the_turn_that_asked_for_it_ends():
    async with Environment([cancelling_at_once, tidy]) as env:
        assert await (await env.client.start(cancelling_at_once, "cancel")).result() == "RunCancelled"


async def test_a_child_that_its_parent_would_abandon_can_be_cancelled_in_the_turn_that_asked_for_it():
    async with Environment([cancelling_at_once, tidy]) as env:
        assert await (await env.client.start(cancelling_at_once, "abandon")).result() == "RunCancelled"


async def test_a_child_that_completes_despite_its_cancel_gives_its_result():
    async with Environment([refused, stubborn]) as env:
        assert await (await env.client.start(refused)).result() == "as I like it"


@pytest.mark.parametrize("options", [{"id": "there"}, {"key": "there"}], ids=["id", "key"])
async def test_a_joined_run_goes_on_when_one_that_joined_it_gives_up_or_cancels_on_every_store(url, options):
    async with AsyncClient(url) as client, Worker(client, workflows=[joining, answered]):
        there = await client.start(answered, id="there", key="there")
        assert await (await client.start(joining, "gives up", options)).result(timeout=30) == "gave up"
        other = await client.start(joining, "cancels", options)
        await until_waiting(other)
        await there.signal("answer", "all is well")
        assert await other.result(timeout=30) == "all is well"


async def test_a_timeout_around_the_wait_calls_the_child_off():
    async with Environment([out_of_time, tidy]) as env:
        child = await env.client.get_run(await (await env.client.start(out_of_time)).result())
        assert await child.wait() is RunStatus.CANCELLED


@pytest.mark.parametrize("how", ["itself", "gather", "task"])
async def test_asyncio_wait_for_gives_up_in_time_and_cancels_the_child(how):
    async with Environment([given_a_second, slow_to_end]) as env:
        child_id, *rest = await (await env.client.start(given_a_second, how, {})).result()
        assert rest == [True]
        assert await (await env.client.get_run(child_id)).wait() is RunStatus.CANCELLED


async def test_asyncio_wait_for_with_a_timeout_of_zero_gives_up_at_once():
    async with Environment([given_no_time, slow_to_end]) as env:
        begun = env.now
        assert await (await env.client.start(given_no_time)).result() == "out of time"
        assert env.now == begun


async def test_asyncio_wait_for_gives_up_a_joined_run_and_lets_it_go_on():
    async with Environment([given_a_second, slow_to_end]) as env:
        there = await env.client.start(slow_to_end, id="there")
        assert await (await env.client.start(given_a_second, "itself", {"id": "there"})).result() == ["there", True]
        assert (await there.refresh()).status is RunStatus.WAITING


async def test_a_parent_that_is_cancelled_in_asyncio_wait_for_ends_at_once():
    async with Environment([given_a_day, slow_to_end]) as env:
        run = await env.client.start(given_a_day)
        await env.until_waiting(run)
        begun = env.now
        await run.cancel()
        assert await run.wait() is RunStatus.CANCELLED
        assert env.now == begun


async def test_a_cancel_of_a_child_that_call_soon_calls_later_counts_as_the_body_s_own():
    async with Environment([cancelling_later, tidy]) as env:
        assert await (await env.client.start(cancelling_later)).result() in cleaned


async def test_a_run_that_is_retried_meanwhile_cancels_the_child_that_takes_its_place():
    answers = [ValueError(), None]

    def answer() -> None:
        if (error := answers.pop(0)) is not None:
            raise error

    async with Environment([failing_meanwhile, slow_to_end], stubs={check: answer}) as env:
        failed = await env.client.start(failing_meanwhile)
        assert await failed.wait() is RunStatus.FAILED
        retried = await env.client.retry(failed.id)
        assert await retried.result() == "RunCancelled"


def test_a_cancelled_child_survives_a_crash_at_every_commit():
    async def end(env: Environment, run: Any) -> None:
        await run.signal("end")

    assert_durable(cancelling, drive=end)
