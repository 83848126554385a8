"""Events: published facts that any number of waiting runs match, and that none misses by being late."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

import pytest

import holdfast
from holdfast import AsyncClient, WaitTimeout, Worker, blocking, workflow
from holdfast.testing import Environment, assert_durable
from tests.life.waiting import until_waiting


@dataclass
class Paid:
    order: int
    cents: int = 0


@workflow
async def paid(order: int) -> Any:
    return await holdfast.wait_for_event("paid", match={"order": order})


@workflow
def paid_in_a_plain_body(order: int) -> Any:
    return blocking.wait_for_event("paid", match={"order": order})


@workflow
async def in_time() -> Any:
    return await holdfast.wait_for_event("paid", timeout="1h", default="nothing")


@workflow
async def later() -> Any:
    await holdfast.sleep("1d")
    return await holdfast.wait_for_event("paid", timeout="1h", default="nothing")


@workflow
async def typed() -> int:
    event = await holdfast.wait_for_event("paid", type=Paid)
    assert isinstance(event, Paid)
    return event.cents


@workflow
async def twice() -> list[Any]:
    first = await holdfast.wait_for_event("paid", timeout="1h", default="nothing")
    return [first, await holdfast.wait_for_event("paid", timeout="1h", default="nothing")]


async def test_an_event_resumes_the_run_that_waits_for_it():
    async with Environment(paid) as env:
        run = await env.client.start(paid, 7)
        await env.until_waiting(run)
        await env.client.publish("paid", {"order": 7, "cents": 5})
        assert await run.result() == {"order": 7, "cents": 5}


async def test_a_plain_body_waits_for_an_event_too():
    async with Environment(paid_in_a_plain_body) as env:
        run = await env.client.start(paid_in_a_plain_body, 7)
        await env.client.publish("paid", {"order": 7})
        assert await run.result() == {"order": 7}


async def test_an_event_resumes_every_run_that_waits_for_it():
    async with Environment(in_time) as env:
        runs = await env.client.start_many(in_time, [(), (), ()])
        for run in runs:
            await env.until_waiting(run)
        await env.client.publish("paid", 1)
        assert [await run.result() for run in runs] == [1, 1, 1]


async def test_an_event_passes_by_the_runs_that_do_not_match_it():
    async with Environment([paid]) as env:
        seven, eight = await env.client.start_many(paid, [(7,), (8,)])
        await env.until_waiting(seven)
        await env.until_waiting(eight)
        await env.client.publish("paid", {"order": 8})
        assert await eight.result() == {"order": 8}
        assert not (await seven.refresh()).status.is_final


async def test_an_event_published_before_the_wait_is_not_missed():
    async with Environment(later) as env:
        run = await env.client.start(later)
        await env.until_waiting(run)
        await env.client.publish("paid", "early")
        assert await run.result() == "early"


async def test_an_event_published_before_the_run_began_to_work_is_not_missed():
    async with Environment(in_time) as env:
        run = await env.client.start(in_time, delay="1h")
        await env.client.publish("paid", "early")
        assert await run.result() == "early"


async def test_an_event_published_before_the_run_was_created_is_not_its_own():
    async with Environment(in_time) as env:
        await env.client.publish("paid", "before its time")
        await env.skip("1s")
        assert await (await env.client.start(in_time)).result() == "nothing"


async def test_an_event_resumes_only_one_wait_of_a_run():
    async with Environment(twice) as env:
        run = await env.client.start(twice)
        await env.client.publish("paid", 1)
        assert await run.result() == [1, "nothing"]


async def test_an_event_goes_to_the_oldest_of_two_waits():
    @workflow
    async def both() -> list[Any]:
        async def wait() -> Any:
            return await holdfast.wait_for_event("paid", timeout="1h", default="nothing")

        return await asyncio.gather(wait(), wait())

    async with Environment(both) as env:
        run = await env.client.start(both)
        await env.until_waiting(run)
        await env.client.publish("paid", 1)
        assert await run.result() == [1, "nothing"]


async def test_events_are_taken_in_the_order_they_were_published():
    async with Environment(twice) as env:
        run = await env.client.start(twice)
        await env.client.publish("paid", 1)
        await env.client.publish("paid", 2)
        assert await run.result() == [1, 2]


async def test_an_event_without_a_payload_is_none():
    async with Environment(in_time) as env:
        run = await env.client.start(in_time)
        await env.client.publish("paid")
        assert await run.result() is None


async def test_a_wait_for_an_event_that_times_out_raises_wait_timeout():
    @workflow
    async def impatient() -> str:
        try:
            return str(await holdfast.wait_for_event("paid", timeout="1h"))
        except WaitTimeout:
            return "late"

    async with Environment(impatient) as env:
        assert await (await env.client.start(impatient)).result() == "late"


async def test_a_wait_that_timed_out_leaves_the_event_to_a_later_wait():
    async with Environment(twice) as env:
        run = await env.client.start(twice)
        await env.until_waiting(run)
        await env.skip("90m")
        await env.client.publish("paid", 1)
        assert await run.result() == ["nothing", 1]


async def test_a_typed_event_arrives_as_an_instance():
    async with Environment(typed) as env:
        run = await env.client.start(typed)
        await env.until_waiting(run)
        await env.client.publish("paid", Paid(7, 5))
        assert await run.result() == 5


async def test_an_event_that_does_not_fit_is_passed_over_and_the_wait_goes_on():
    async with Environment(typed) as env:
        run = await env.client.start(typed)
        await env.until_waiting(run)
        await env.client.publish("paid", "nonsense")
        await env.until_waiting(run)
        await env.client.publish("paid", Paid(7, 5))
        assert await run.result() == 5


async def test_a_match_must_be_a_mapping_that_can_be_stored():
    @workflow
    async def odd() -> None:
        await holdfast.wait_for_event("paid", match={"order": object()})

    async with Environment(odd) as env:
        with pytest.raises(holdfast.RunFailed):
            await (await env.client.start(odd)).result()


async def test_a_body_publishes_an_event_once_though_every_turn_replays():
    @workflow
    async def publisher() -> None:
        holdfast.publish("paid", 1)
        await holdfast.sleep("1m")
        await holdfast.sleep("1m")

    async with Environment([twice, publisher]) as env:
        run = await env.client.start(twice)
        await env.client.start(publisher)
        assert await run.result() == [1, "nothing"]


async def test_a_published_event_begins_the_workflows_declared_for_it():
    begun: list[Any] = []

    @holdfast.step
    async def begin(payload: Any) -> None:
        begun.append(payload)

    @workflow(on_event="paid", match={"order": 7})
    async def on_paid(payload: dict[str, int]) -> None:
        await begin(payload)

    async with Environment(on_paid) as env:
        await env.client.publish("paid", {"order": 8})
        await env.client.publish("paid", {"order": 7})
        await env.skip("1s")
        assert begun == [{"order": 7}]


@dataclass
class Payment:
    order: UUID
    day: date


@pytest.mark.parametrize("is_typed", [True, False])
async def test_a_match_on_a_type_that_json_lacks_fits_payloads_with_and_without_their_type(is_typed):
    begun: list[Any] = []
    order, day = UUID(int=7), date(2026, 1, 31)
    payload = Payment(order, day) if is_typed else {"order": order, "day": day}

    @holdfast.step
    async def begin() -> None:
        begun.append(1)

    @workflow(on_event="paid", match={"day": day})
    async def on_paid(payload: Any) -> None:
        await begin()

    @workflow
    async def waits(order: UUID) -> list[Any]:
        event = await holdfast.wait_for_event("paid", match={"order": order}, type=Payment, timeout="1h", default=None)
        signal = await holdfast.wait_for_signal("paid", match={"day": day}, type=Payment, timeout="1h", default=None)
        return [event is not None, signal is not None]

    async with Environment([waits, on_paid]) as env:
        run = await env.client.start(waits, order)
        await run.signal("paid", payload)
        await env.client.publish("paid", payload)
        assert await run.result() == [True, True]
        await env.skip("1s")
        assert begun == [1]


def test_a_match_on_a_value_that_no_payload_can_hold_is_refused_at_the_call():
    with pytest.raises(holdfast.DefinitionError, match="expected what JSON holds"):

        @workflow(on_event="paid", match={"order": object()})
        async def on_paid(payload: Any) -> None: ...


async def takes_nothing() -> None: ...


async def takes_two(payload: Any, other: Any) -> None: ...


@pytest.mark.parametrize("body", [takes_nothing, takes_two])
def test_a_workflow_for_events_that_cannot_take_the_payload_alone_is_refused_where_it_is_declared(body):
    with pytest.raises(holdfast.DefinitionError, match=r"'takes_\w+': with on_event='paid' .* the event's payload"):
        workflow(on_event="paid")(body)


def test_events_survive_a_crash_at_every_commit():
    async def drive(env: Any, run: Any) -> None:
        await env.client.publish("paid", 1, message_id="1")
        await env.client.publish("paid", 2, message_id="2")

    assert_durable(twice, drive=drive)


def test_publishing_from_a_body_survives_a_crash_at_every_commit():
    @workflow
    async def to_itself() -> list[Any]:
        holdfast.publish("paid", 1)
        first = await holdfast.wait_for_event("paid", timeout="1h", default="nothing")
        return [first, await holdfast.wait_for_event("paid", timeout="1h", default="nothing")]

    async def drive(env: Any, run: Any) -> None:
        assert await run.result() == [1, "nothing"]

    assert_durable(to_itself, drive=drive)


async def test_an_event_published_while_no_worker_lives_reaches_the_next_one(url):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[paid]):
            run = await client.start(paid, 7)
            await until_waiting(run)
        await client.publish("paid", {"order": 7})
        async with Worker(client, workflows=[paid]):
            assert await run.result(timeout=30) == {"order": 7}


async def test_an_event_resumes_the_runs_of_several_workers(url):
    async with (
        AsyncClient(url) as client,
        Worker(url, workflows=[paid], concurrency=2),
        Worker(url, workflows=[paid], concurrency=2),
    ):
        runs = await client.start_many(paid, [(number,) for number in range(6)])
        for run in runs:
            await until_waiting(run)
        for number in range(6):
            await client.publish("paid", {"order": number})
        assert [await run.result(timeout=30) for run in runs] == [{"order": number} for number in range(6)]


async def test_an_event_published_beside_the_registration_is_never_missed(url):
    async with AsyncClient(url) as client, Worker(url, workflows=[paid]):
        for number in range(15):
            run = await client.start(paid, number)
            await client.publish("paid", {"order": number})
            assert await run.result(timeout=30) == {"order": number}


async def test_explain_names_what_a_run_waits_for(url):
    @workflow
    async def buying() -> object:
        return await holdfast.wait_for_event("paid", match={"order": 7})

    async with AsyncClient(url) as client, Worker(client, workflows=[buying]):
        run = await client.start(buying)
        await until_waiting(run)
        assert "waits for the event 'paid' that holds {\"order\":7}" in str(await client.explain(run.id))


@workflow
async def begins_and_publishes() -> Any:
    child = in_time.start()
    holdfast.publish("paid", "at once")
    return await child


async def test_an_event_published_in_the_turn_that_begins_a_child_is_not_missed_by_it(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[begins_and_publishes, in_time]):
        run = await client.start(begins_and_publishes)
        assert await run.result(timeout=20) == "at once"
