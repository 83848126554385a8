"""The end of a parent: its children go with it, unless it was said that they stay."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast import AsyncClient, RunFilter, RunStatus, Worker, workflow
from holdfast.testing import Environment
from tests.life.waiting import until_status, until_waiting


@workflow
async def endless() -> None:
    await holdfast.wait_for_signal("end")


@workflow
async def leaving(on_parent_end: str) -> str:
    held = endless.options(on_parent_end="cancel" if on_parent_end == "cancel" else "abandon").start()
    await asyncio.wait([held], timeout=60)
    return held.id


@pytest.mark.parametrize(("on_parent_end", "status"), [("cancel", RunStatus.CANCELLED), ("abandon", RunStatus.WAITING)])
async def test_on_parent_end_says_what_becomes_of_a_child(on_parent_end, status):
    async with Environment([leaving, endless]) as env:
        held = await env.client.get_run(await (await env.client.start(leaving, on_parent_end)).result())
        await env.skip("1m")
        assert (await held.refresh()).status is status


async def test_a_cancelled_parent_cancels_the_child_it_waits_for():
    @workflow
    async def waits_for_it() -> None:
        await endless.options(id="the-child")()

    async with Environment([waits_for_it, endless]) as env:
        run = await env.client.start(waits_for_it)
        await env.until_waiting(run)
        await run.cancel()
        assert await run.wait() is RunStatus.CANCELLED
        assert await (await env.client.get_run("the-child")).wait() is RunStatus.CANCELLED


async def test_a_failed_parent_cancels_its_children():
    @workflow
    async def fails_soon() -> None:
        endless.options(id="the-child").start()
        await holdfast.sleep("1m")
        raise ValueError("no money")

    async with Environment([fails_soon, endless]) as env:
        run = await env.client.start(fails_soon)
        assert await run.wait() is RunStatus.FAILED
        assert await (await env.client.get_run("the-child")).wait() is RunStatus.CANCELLED


async def test_grandchildren_go_with_their_grandparent():
    @workflow
    async def middle() -> None:
        await endless.options(id="the-grandchild")()

    @workflow
    async def top() -> None:
        await middle()

    async with Environment([top, middle, endless]) as env:
        run = await env.client.start(top)
        await env.until_waiting(run)
        await env.until_waiting(await env.client.get_run("the-grandchild"))
        await run.cancel()
        assert await (await env.client.get_run("the-grandchild")).wait() is RunStatus.CANCELLED


async def test_a_cancelled_parent_cancels_its_children_on_every_store(url):
    @workflow
    async def holding() -> None:
        await endless.start()

    async with AsyncClient(url) as client, Worker(client, workflows=[holding, endless]):
        run = await client.start(holding)
        await until_waiting(run)
        [held] = [one async for one in client.runs(RunFilter(parent=run.id))]
        await until_waiting(held)
        await run.cancel()
        await until_status(held, RunStatus.CANCELLED)
        assert await run.wait(timeout=30) is RunStatus.CANCELLED


BEGUN: list[str] = []
FINAL = (RunStatus.CANCELLED, RunStatus.COMPLETED)


@workflow
async def hasty() -> str:
    """One that would have done its work before it hears of a cancel."""
    BEGUN.append("begun")
    return "done"


@workflow
async def waits_for_a_later_one() -> str:
    return await hasty.options(id="later", delay="1h")()


async def test_a_child_that_has_not_begun_when_its_parent_is_cancelled_never_begins(url):
    BEGUN.clear()
    async with AsyncClient(url) as client, Worker(client, workflows=[waits_for_a_later_one, hasty]):
        run = await client.start(waits_for_a_later_one)
        await until_waiting(run)
        await client.cancel(run.id)
        await until_status(await client.get_run("later"), *FINAL)
        assert BEGUN == []
        assert [entry.kind for entry in await client.journal("later")] == ["ended"]
