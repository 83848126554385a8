"""A deploy that changes what a run waits for: another event's name, another match, another type."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, AsyncRun, BadPayload, RunFilter, Worker, workflow
from holdfast.define import Workflow
from tests.life.waiting import PATIENCE, until, until_waiting


def listening(name: str, match: dict[str, int] | None = None) -> Workflow[Any, Any]:
    @workflow(name="order")
    async def order() -> Any:
        return await holdfast.wait_for_event(name, match=match)

    return order


def looking_up_now_and_then(name: str) -> Workflow[Any, Any]:
    @workflow(name="order")
    async def order() -> Any:
        paid = asyncio.ensure_future(holdfast.wait_for_event(name))
        while not paid.done():
            await asyncio.wait([paid], timeout=0.2)
        return await paid

    return order


def asking(wanted: Any) -> Workflow[Any, Any]:
    @workflow(name="asking")
    async def ask() -> Any:
        return await holdfast.wait_for_signal("go", type=wanted)

    return ask


@workflow
async def another() -> None:
    """What the only worker knows that is there between two deploys."""


async def begun(client: AsyncClient, workflow: Workflow[Any, Any]) -> AsyncRun[Any]:
    """A run that waits, and that no worker holds."""
    async with Worker(client, workflows=[workflow]):
        run = await client.start(workflow)
        await until_waiting(run)
    return run


async def wake(client: AsyncClient) -> None:
    """What docs/versions.md says to do after a deploy that changes a wait."""
    async for run in client.runs(RunFilter(status="waiting")):
        await run.signal("look-again")


async def says(client: AsyncClient, run: AsyncRun[Any], what: str) -> None:
    async def is_explained() -> bool:
        return what in str(await client.explain(run.id))

    await until(is_explained)


async def test_a_run_that_a_timer_wakes_gets_the_event_that_the_mended_code_waits_for(url):
    async with AsyncClient(url) as client:
        run = await begun(client, looking_up_now_and_then("payed"))
        async with Worker(client, workflows=[looking_up_now_and_then("paid")]):
            await says(client, run, "'paid'")
            await client.publish("paid", {"id": 1})
            assert await run.result(timeout=30) == {"id": 1}


async def test_a_parked_run_that_is_woken_gets_an_event_that_came_before_its_match_was_mended(url):
    async with AsyncClient(url) as client:
        run = await begun(client, listening("paid", {"id": 1}))
        await client.publish("paid", {"order": 1})
        async with Worker(client, workflows=[listening("paid", {"order": 1})]):
            await wake(client)
            assert await run.result(timeout=30) == {"order": 1}


@pytest.mark.parametrize("mended", [str, Any])
async def test_a_signal_that_fits_the_type_of_the_mended_code_is_let_through(url, mended):
    async with AsyncClient(url) as client:
        run = await begun(client, asking(int))
        async with Worker(client, workflows=[asking(mended)]):
            await wake(client)

            async def is_sent() -> bool:
                try:
                    await run.signal("go", "text")
                except BadPayload:
                    return False
                return True

            await until(is_sent)
            assert await run.result(timeout=30) == "text"


async def test_a_mended_wait_is_registered_although_an_event_was_matched_with_the_earlier_one(url):
    async with AsyncClient(url) as client:
        run = await begun(client, listening("payed"))
        async with Worker(client, workflows=[another]):
            await client.publish("payed", {"id": 1})
            await says(client, run, "event 'payed' (1)")
        async with Worker(client, workflows=[listening("paid")]):
            await says(client, run, "'paid'")
            await client.publish("paid", {"id": 2})
            assert await run.result(timeout=30) == {"id": 2}


async def test_an_event_that_was_matched_before_the_body_is_rebuilt_is_taken_once(url):
    @workflow(name="order")
    async def two() -> list[Any]:
        first = await holdfast.wait_for_event("paid")
        return [first, await holdfast.wait_for_event("paid", timeout=0.3, default="no other")]

    async with AsyncClient(url) as client:
        run = await begun(client, two)
        async with Worker(client, workflows=[another]):
            await client.publish("paid", {"id": 1})
            await says(client, run, "event 'paid' (1)")
        async with Worker(client, workflows=[two]):
            assert await run.result(timeout=30) == [{"id": 1}, "no other"]


async def test_a_wait_that_has_not_changed_is_left_as_it_is(url):
    async def waits() -> Any:
        async with asyncio.timeout(PATIENCE):
            while not (found := (await client.explain(run.id)).details.get("waits")):
                await asyncio.sleep(0.005)
        return found

    async with AsyncClient(url) as client:
        run = await begun(client, looking_up_now_and_then("paid"))
        before, known = await waits(), len(await client.journal(run.id))

        async def has_gone_on() -> bool:
            return len(await client.journal(run.id)) > known + 1

        async with Worker(client, workflows=[looking_up_now_and_then("paid")]):
            await until(has_gone_on)
            assert await waits() == before
