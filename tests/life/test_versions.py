"""Changing code under live runs: patched(), versions, and code that no longer matches."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, JournalDiverged, Worker, step, workflow
from holdfast.testing import Environment, assert_durable, export_journal, replay
from tests.life.waiting import until, until_waiting


@step
async def old_way() -> str:
    return "old"


@step
async def new_way() -> str:
    return "new"


@workflow(name="changing")
async def before() -> list[str]:
    first = await old_way()
    await holdfast.wait_for_signal("go")
    return [first]


@workflow(name="changing")
async def after() -> list[str]:
    first = await (new_way() if holdfast.patched("new way") else old_way())
    await holdfast.wait_for_signal("go")
    return [first, str(holdfast.patched("new way"))]


@workflow(name="changing")
async def after_the_wait() -> list[str]:
    first = await old_way()
    await holdfast.wait_for_signal("go")
    return [first, str(holdfast.patched("later"))]


@workflow(name="changing")
async def broken() -> list[str]:
    return [await new_way()]


@workflow
async def patched_twice() -> list[bool]:
    first = holdfast.patched("one")
    await holdfast.sleep("1h")
    second = holdfast.patched("one")
    await old_way()
    return [first, second, holdfast.patched("two")]


async def test_a_new_run_takes_the_patched_way():
    async with Environment(after) as env:
        run = await env.client.start(after)
        await run.signal("go")
        assert await run.result() == ["new", "True"]


async def test_patched_gives_the_same_answer_on_every_replay():
    async with Environment(patched_twice) as env:
        assert await (await env.client.start(patched_twice)).result() == [True, True, True]


async def test_a_run_that_had_passed_the_patch_goes_on_the_old_way(url):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[before]):
            run = await client.start(before)
            await until_waiting(run)
        async with Worker(client, workflows=[after]):
            await run.signal("go")
            assert await run.result(timeout=30) == ["old", "False"]


async def test_a_run_that_had_not_passed_the_patch_takes_the_new_way(url):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[before]):
            run = await client.start(before)
            await until_waiting(run)
        async with Worker(client, workflows=[after_the_wait]):
            await run.signal("go")
            assert await run.result(timeout=30) == ["old", "True"]


async def test_a_new_run_with_a_plain_body_takes_the_patched_way():
    @workflow
    def plain() -> bool:
        return holdfast.patched("one")

    async with Environment(plain) as env:
        assert await (await env.client.start(plain)).result() is True


async def test_code_that_no_longer_matches_leaves_the_run_intact_until_it_is_fixed(url):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[before]):
            run = await client.start(before)
            await until_waiting(run)
        await run.signal("go")
        async with Worker(client, workflows=[broken]):

            async def is_explained() -> bool:
                return "old_way" in str(await client.explain(run.id))

            await until(is_explained)
            text = str(await client.explain(run.id))
            assert "new_way" in text
            assert "test_versions.py" in text
        assert not (await run.refresh()).status.is_final
        async with Worker(client, workflows=[before]):
            assert await run.result(timeout=30) == ["old"]


async def test_a_journal_is_replayed_against_the_new_code_before_a_deploy():
    async with Environment(before) as env:
        run = await env.client.start(before)
        await env.until_waiting(run)
        exported = export_journal(await env.client.journal(run.id))
    with pytest.raises(JournalDiverged):
        replay(exported, broken)
    assert replay(exported, after).status is None


async def test_a_run_of_a_version_waits_for_a_worker_that_has_it(url):
    @workflow(name="versioned", version="1")
    async def first() -> str:
        return "1"

    @workflow(name="versioned", version="2")
    async def second() -> str:
        return "2"

    async with AsyncClient(url) as client:
        run = await client.start(first)
        async with Worker(client, workflows=[second]):
            assert await (await client.start(second)).result(timeout=30) == "2"
            assert not (await run.refresh()).status.is_final
        async with Worker(client, workflows=[first, second]):
            assert await run.result(timeout=30) == "1"


def test_patched_survives_a_crash_at_every_commit():
    assert_durable(patched_twice)


def test_a_patch_decided_while_nothing_was_recorded_survives_a_crash_at_every_commit():
    @workflow
    async def first_thing() -> list[Any]:
        one = holdfast.patched("one")
        return [one, await new_way() if one else await old_way()]

    assert_durable(first_thing)
