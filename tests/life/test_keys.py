"""Keys: idempotency keys of runs, and message ids that make a delivery safe to repeat."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, KeyTaken, RunStatus, Worker, step, workflow
from holdfast.testing import Environment
from tests.life.waiting import until_waiting

tokens: dict[str, str] = {}


@step
async def send(token: str) -> None:
    tokens[holdfast.current_step().run_id] = token


@workflow
async def collecting() -> list[Any]:
    found = []
    while True:
        signal = await holdfast.wait_for_signal("go", timeout="1h", default="over")
        if signal == "over":
            return found
        found.append(signal)


@workflow
async def gathering() -> list[Any]:
    found = []
    while True:
        event = await holdfast.wait_for_event("paid", timeout="1h", default="over")
        if event == "over":
            return found
        found.append(event)


@workflow
async def asking() -> Any:
    hook = holdfast.hook()
    await send(hook.token)
    answer = await hook.wait()
    await holdfast.wait_for_signal("end")
    return answer


@workflow
async def two_signals() -> list[Any]:
    return [await holdfast.wait_for_signal("go"), await holdfast.wait_for_signal("go")]


@workflow
async def told() -> Any:
    return await holdfast.wait_for_signal("go")


@workflow
async def failing(n: int) -> int:
    if await allowed():
        return n
    raise ValueError("not now")


@step
async def allowed() -> bool:
    return False


async def test_a_signal_with_the_same_message_id_is_delivered_once():
    async with Environment(collecting) as env:
        run = await env.client.start(collecting)
        await run.signal("go", 1, message_id="a")
        await run.signal("go", 2, message_id="a")
        await run.signal("go", 3, message_id="b")
        assert await run.result() == [1, 3]


async def test_a_signal_is_not_delivered_again_after_the_run_has_taken_it():
    async with Environment(collecting) as env:
        run = await env.client.start(collecting)
        await run.signal("go", 1, message_id="a")
        await env.until_waiting(run)
        await run.signal("go", 2, message_id="a")
        assert await run.result() == [1]


async def test_message_ids_of_two_runs_have_nothing_to_do_with_each_other():
    async with Environment(collecting) as env:
        first, second = await env.client.start_many(collecting, [(), ()])
        await first.signal("go", 1, message_id="a")
        await second.signal("go", 2, message_id="a")
        assert [await first.result(), await second.result()] == [[1], [2]]


async def test_an_event_with_the_same_message_id_is_published_once():
    async with Environment(gathering) as env:
        run = await env.client.start(gathering)
        await env.until_waiting(run)
        await env.client.publish("paid", 1, message_id="a")
        await env.until_waiting(run)
        await env.client.publish("paid", 2, message_id="a")
        assert await run.result() == [1]


async def test_a_resume_repeated_with_its_message_id_is_no_error():
    async with Environment(asking) as env:
        run = await env.client.start(asking)
        await env.until_waiting(run)
        await env.client.resume_hook(tokens[run.id], 1, message_id="a")
        await env.client.resume_hook(tokens[run.id], 2, message_id="a")
        await env.until_waiting(run)
        await env.client.resume_hook(tokens[run.id], 3, message_id="a")
        with pytest.raises(holdfast.HookUsed):
            await env.client.resume_hook(tokens[run.id], 4, message_id="b")
        await run.signal("end")
        assert await run.result() == 1


async def test_a_signal_redelivered_to_the_next_run_of_its_chain_is_delivered_once():
    @workflow
    async def chained(found: list[Any]) -> list[Any]:
        signal = await holdfast.wait_for_signal("go", timeout="1h", default="over")
        if signal == "over":
            return found
        chained.continue_as_new([*found, signal])

    async with Environment(chained) as env:
        run = await env.client.start(chained, [])
        await env.until_waiting(run)
        await run.signal("go", 1, message_id="a")
        await env.skip("1s")
        await run.signal("go", 2, message_id="a")
        assert await run.result() == [1]


async def test_a_signal_with_a_message_id_may_be_repeated_after_the_run_has_ended():
    async with Environment(told) as env:
        run = await env.client.start(told)
        await run.signal("go", 1, message_id="a")
        await run.result()
        with pytest.raises(holdfast.RunEnded):
            await run.signal("go", 2, message_id="b")


async def test_message_ids_count_on_every_store(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[two_signals]):
        run = await client.start(two_signals)
        await asyncio.gather(*(run.signal("go", 1, message_id="a") for _ in range(5)))
        await until_waiting(run)
        await run.signal("go", 1, message_id="a")
        await run.signal("go", 2, message_id="b")
        assert await run.result(timeout=30) == [1, 2]


async def test_a_message_id_that_is_no_text_is_refused():
    async with Environment(told) as env:
        run = await env.client.start(told)
        with pytest.raises((holdfast.DefinitionError, TypeError)):
            await run.signal("go", 1, message_id=5)


async def test_a_second_start_with_a_key_returns_the_run_there_is():
    async with Environment(told) as env:
        first = await env.client.start(told, key="one")
        second = await env.client.start(told, key="one")
        assert (first.created, second.created, second.id) == (True, False, first.id)


async def test_a_key_is_kept_by_an_ended_run():
    async with Environment(told) as env:
        first = await env.client.start(told, key="one")
        await first.signal("go", 1)
        await first.result()
        assert await (await env.client.start(told, key="one")).result() == 1


async def test_a_key_belongs_to_one_workflow():
    async with Environment([told, collecting]) as env:
        first = await env.client.start(told, key="one")
        second = await env.client.start(collecting, key="one")
        assert second.created
        assert first.id != second.id


async def test_a_start_with_raise_names_the_run_that_has_the_key():
    async with Environment(told) as env:
        run = await env.client.start(told, key="one")
        with pytest.raises(KeyTaken) as taken:
            await env.client.start(told, key="one", on_conflict="raise")
        assert taken.value.run_id == run.id


async def test_a_start_with_replace_cancels_the_live_run_and_begins_when_that_has_ended():
    begun: list[str] = []

    @step
    async def begin() -> None:
        begun.append(holdfast.current_step().run_id)

    @step
    async def leave() -> None:
        begun.append(f"left {holdfast.current_step().run_id}")

    @workflow
    async def slow_to_leave() -> None:
        await begin()
        try:
            await holdfast.wait_for_signal("end")
        finally:
            await holdfast.sleep("1h")
            await leave()

    async with Environment(slow_to_leave) as env:
        first = await env.client.start(slow_to_leave, key="one")
        await env.until_waiting(first)
        second = await env.client.start(slow_to_leave, key="one", on_conflict="replace")
        assert second.created
        assert await first.wait() is RunStatus.CANCELLED
        await env.until_waiting(second)
        assert begun == [first.id, f"left {first.id}", second.id]
        assert (await env.client.get_run(slow_to_leave, key="one")).id == second.id


async def test_a_start_with_restart_returns_a_live_run():
    async with Environment(told) as env:
        first = await env.client.start(told, key="one")
        second = await env.client.start(told, key="one", on_conflict="restart")
        assert (second.created, second.id) == (False, first.id)


async def test_a_start_with_restart_takes_the_key_of_an_ended_run():
    async with Environment(told) as env:
        first = await env.client.start(told, key="one")
        await first.signal("go", 1)
        await first.result()
        second = await env.client.start(told, key="one", on_conflict="restart")
        assert second.created
        await second.signal("go", 2)
        assert [await first.result(), await second.result()] == [1, 2]


async def test_a_start_with_retry_goes_on_where_the_failed_run_stopped():
    async with Environment(failing) as env:
        first = await env.client.start(failing, 1, key="one")
        assert await first.wait() is RunStatus.FAILED
        second = await env.client.start(failing, 1, key="one", on_conflict="retry")
        assert second.id != first.id
        assert await second.wait() is RunStatus.FAILED
        assert len(env.calls(allowed)) == 1


async def test_a_second_start_with_an_id_returns_that_run():
    async with Environment(told) as env:
        first = await env.client.start(told, id="mine")
        second = await env.client.start(told, id="mine")
        assert (first.id, second.id, second.created) == ("mine", "mine", False)


async def test_many_starts_at_once_with_one_key_make_one_run(url):
    async with AsyncClient(url) as client, AsyncClient(url) as other, Worker(client, workflows=[told]):
        runs = await asyncio.gather(*(one.start(told, key="one") for one in [client, other] * 5))
        assert len({run.id for run in runs}) == 1
        assert sum(run.created is True for run in runs) == 1


async def test_a_start_with_replace_works_on_every_store(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[told]):
        first = await client.start(told, key="one")
        await until_waiting(first)
        second = await client.start(told, key="one", on_conflict="replace")
        assert await first.wait(timeout=30) is RunStatus.CANCELLED
        await second.signal("go", 2)
        assert await second.result(timeout=30) == 2
