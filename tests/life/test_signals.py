"""Signals: messages to one run, which wait in its inbox until the body asks for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import (
    AsyncClient,
    RunEnded,
    RunFailed,
    RunNotFound,
    RunStatus,
    WaitTimeout,
    Worker,
    blocking,
    step,
    workflow,
)
from holdfast.testing import Environment, assert_durable
from tests.life.waiting import until_waiting

done: dict[str, str] = {}


@step
async def note(text: str) -> str:
    done[holdfast.current_step().idempotency_key] = text
    return text


@workflow
async def told() -> Any:
    return await holdfast.wait_for_signal("go")


@workflow
def told_in_a_plain_body() -> Any:
    return blocking.wait_for_signal("go")


@workflow
async def two_of_them() -> list[Any]:
    return [await holdfast.wait_for_signal("go"), await holdfast.wait_for_signal("go")]


@workflow
async def in_time_or_so() -> Any:
    return await holdfast.wait_for_signal("go", timeout="1h", default="nobody")


@workflow
async def later() -> Any:
    await holdfast.sleep("1d")
    return await holdfast.wait_for_signal("go")


async def test_a_signal_resumes_the_wait_with_its_payload():
    async with Environment(told) as env:
        run = await env.client.start(told)
        await env.until_waiting(run)
        await run.signal("go", {"colour": "red"})
        assert await run.result() == {"colour": "red"}


async def test_a_plain_body_waits_for_a_signal_too():
    async with Environment(told_in_a_plain_body) as env:
        run = await env.client.start(told_in_a_plain_body)
        await env.until_waiting(run)
        await run.signal("go", 7)
        assert await run.result() == 7


async def test_a_signal_sent_before_its_wait_is_not_lost():
    async with Environment(later) as env:
        run = await env.client.start(later)
        await run.signal("go", "early")
        assert await run.result() == "early"


async def test_a_signal_sent_before_the_run_begins_is_not_lost():
    async with Environment(told) as env:
        run = await env.client.start(told, delay="1h")
        await run.signal("go", "early")
        assert await run.result() == "early"


async def test_signals_of_one_name_come_in_the_order_they_were_sent():
    async with Environment(two_of_them) as env:
        run = await env.client.start(two_of_them)
        await run.signal("go", 1)
        await run.signal("go", 2)
        assert await run.result() == [1, 2]


async def test_one_signal_resumes_one_of_two_waits():
    @workflow
    async def both() -> list[Any]:
        return await asyncio.gather(holdfast.wait_for_signal("go"), holdfast.wait_for_signal("go"))

    async with Environment(both) as env:
        run = await env.client.start(both)
        await env.until_waiting(run)
        await run.signal("go", 1)
        await env.until_waiting(run)
        assert not (await run.refresh()).status.is_final
        await run.signal("go", 2)
        assert await run.result() == [1, 2]


async def test_a_signal_of_another_name_resumes_nothing():
    async with Environment(in_time_or_so) as env:
        run = await env.client.start(in_time_or_so)
        await run.signal("stop", 1)
        assert await run.result() == "nobody"


async def test_a_signal_without_a_payload_is_none():
    async with Environment(in_time_or_so) as env:
        run = await env.client.start(in_time_or_so)
        await run.signal("go")
        assert await run.result() is None


async def test_a_wait_that_times_out_raises_wait_timeout():
    @workflow
    async def patient() -> str:
        try:
            await holdfast.wait_for_signal("go", timeout="1h")
        except WaitTimeout as timeout:
            return f"{isinstance(timeout, TimeoutError)}"
        return "signalled"

    async with Environment(patient) as env:
        assert await (await env.client.start(patient)).result() == "True"


async def test_a_wait_that_times_out_gives_its_default_where_there_is_one():
    async with Environment(in_time_or_so) as env:
        begun = env.now
        assert await (await env.client.start(in_time_or_so)).result() == "nobody"
        assert (env.now - begun).total_seconds() == 3600


async def test_none_as_the_default_is_a_default():
    @workflow
    async def patient() -> Any:
        return [await holdfast.wait_for_signal("go", timeout="1h", default=None)]

    async with Environment(patient) as env:
        assert await (await env.client.start(patient)).result() == [None]


async def test_a_wait_that_timed_out_leaves_the_next_signal_to_the_next_wait():
    @workflow
    async def twice() -> list[Any]:
        first = await holdfast.wait_for_signal("go", timeout="1h", default="late")
        return [first, await holdfast.wait_for_signal("go", timeout="1h", default="late")]

    async with Environment(twice) as env:
        run = await env.client.start(twice)
        await env.until_waiting(run)
        await env.skip("90m")
        await run.signal("go", "here")
        assert await run.result() == ["late", "here"]


async def test_a_wait_that_lost_a_race_consumes_nothing():
    @workflow
    async def race() -> Any:
        try:
            async with asyncio.timeout(60):
                await holdfast.wait_for_signal("go")
        except TimeoutError:
            pass
        return await holdfast.wait_for_signal("go")

    async with Environment(race) as env:
        run = await env.client.start(race)
        await env.until_waiting(run)
        await env.skip("2m")
        await run.signal("go", "the only one")
        assert await run.result() == "the only one"


async def test_a_signal_beside_a_long_sleep_does_not_end_the_sleep():
    @workflow
    async def both() -> list[Any]:
        begun = holdfast.now()

        async def doze() -> float:
            await holdfast.sleep("1h")
            return (holdfast.now() - begun).total_seconds()

        return await asyncio.gather(doze(), holdfast.wait_for_signal("go"))

    async with Environment(both) as env:
        run = await env.client.start(both)
        await env.until_waiting(run)
        await run.signal("go", "early")
        assert await run.result() == [3600.0, "early"]


async def test_a_signal_to_an_ended_run_raises_run_ended():
    async with Environment(told) as env:
        run = await env.client.start(told)
        await run.signal("go", 1)
        await run.result()
        with pytest.raises(RunEnded):
            await run.signal("go", 2)


async def test_a_signal_to_no_run_raises_run_not_found():
    async with Environment(told) as env:
        with pytest.raises(RunNotFound):
            await env.client.signal("nobody", "go")


async def test_a_payload_that_cannot_be_encoded_is_refused_and_nothing_is_sent():
    async with Environment(in_time_or_so) as env:
        run = await env.client.start(in_time_or_so)
        with pytest.raises(holdfast.NotEncodable):
            await run.signal("go", object())
        assert await run.result() == "nobody"


async def test_a_body_signals_another_run():
    @workflow
    async def teller(run_id: str) -> None:
        holdfast.signal(run_id, "go", "from a body")

    async with Environment([told, teller]) as env:
        run = await env.client.start(told)
        await (await env.client.start(teller, run.id)).result()
        assert await run.result() == "from a body"


async def test_a_signal_from_a_body_is_sent_once_though_every_turn_replays():
    @workflow
    async def teller(run_id: str) -> None:
        holdfast.signal(run_id, "go", 1)
        await holdfast.sleep("1h")
        holdfast.signal(run_id, "go", 2)
        await holdfast.sleep("1h")

    async with Environment([two_of_them, teller]) as env:
        run = await env.client.start(two_of_them)
        await (await env.client.start(teller, run.id)).result()
        assert await run.result() == [1, 2]


async def test_a_run_may_signal_itself():
    @workflow
    async def to_itself() -> Any:
        holdfast.signal(holdfast.current_run().id, "go", "me")
        return await holdfast.wait_for_signal("go")

    async with Environment(to_itself) as env:
        assert await (await env.client.start(to_itself)).result() == "me"


async def test_a_signal_from_a_body_to_an_ended_run_does_not_fail_the_sender():
    @workflow
    async def teller(run_id: str) -> str:
        holdfast.signal(run_id, "go", 1)
        await holdfast.sleep("1s")
        return "sent"

    async with Environment([told, teller]) as env:
        run = await env.client.start(told)
        await run.signal("go", 0)
        await run.result()
        assert await (await env.client.start(teller, run.id)).result() == "sent"


def test_signals_survive_a_crash_at_every_commit():
    @workflow
    async def durable() -> list[Any]:
        first = await holdfast.wait_for_signal("go")
        await note(str(first))
        second = await holdfast.wait_for_signal("go", timeout="1h", default="nobody")
        await note(str(second))
        return [first, second, await holdfast.wait_for_signal("go", timeout="1h", default="nobody")]

    async def drive(env: Any, run: Any) -> None:
        await run.signal("go", 1, message_id="1")
        await run.signal("go", 2, message_id="2")

    assert_durable(durable, drive=drive, effects=done)


async def test_a_signal_sent_while_no_worker_lives_reaches_the_next_one(url):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[two_of_them]):
            run = await client.start(two_of_them)
            await until_waiting(run)
            await run.signal("go", 1)
        await run.signal("go", 2)
        async with Worker(client, workflows=[two_of_them]):
            assert await run.result(timeout=30) == [1, 2]


async def test_a_signal_is_sent_from_another_client_than_the_workers(url):
    async with AsyncClient(url) as client, Worker(url, workflows=[told]):
        run = await client.start(told)
        await until_waiting(run)
        await client.signal(run.id, "go", "hello")
        assert await run.result(timeout=30) == "hello"


async def test_a_signal_to_an_ended_run_is_refused_by_every_store(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[told]):
        run = await client.start(told)
        await run.signal("go")
        await run.result(timeout=30)
        with pytest.raises(RunEnded):
            await run.signal("go")


async def test_a_wait_that_times_out_does_so_on_every_store(url):
    @workflow
    async def short() -> Any:
        return await holdfast.wait_for_signal("go", timeout=0.05, default="nobody")

    async with AsyncClient(url) as client, Worker(client, workflows=[short]):
        run = await client.start(short)
        assert await run.result(timeout=30) == "nobody"
        assert run.status is RunStatus.COMPLETED


@workflow
async def tells(run_id: str) -> None:
    holdfast.signal(run_id, "go", "on")


async def test_a_body_can_signal_a_run_whatever_its_id_is():
    async with Environment(workflows=[told, tells]) as env:
        run = await env.client.start(told, id="x" * 500)
        await (await env.client.start(tells, run.id)).result()
        assert await run.result() == "on"


async def test_a_signal_from_a_body_to_an_invalid_id_is_refused_at_the_call():
    async with Environment(workflows=[told, tells]) as env:
        run = await env.client.start(tells, "a\0b")
        with pytest.raises(RunFailed, match="expected the id of a run"):
            await run.result()
