"""Chains: continue_as_new ends a run and begins a fresh one, with the same key, messages and place."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, NotRetryable, RunStatus, Worker, step, workflow
from holdfast.testing import Environment, assert_durable
from tests.life.chains import count, counting, executed, summing
from tests.life.waiting import until, until_waiting


@workflow
def counting_in_a_plain_body(n: int) -> int:
    if n < 3:
        holdfast.continue_as_new(n + 1)
    return n


@workflow
async def endless() -> None:
    await holdfast.wait_for_signal("end")


async def test_a_chain_goes_on_with_new_arguments():
    async with Environment(counting) as env:
        assert await (await env.client.start(counting, 0, 4)).result() == 4
        assert len(env.calls(count)) == 4


async def test_a_plain_body_continues_too():
    async with Environment(counting_in_a_plain_body) as env:
        assert await (await env.client.start(counting_in_a_plain_body, 0)).result() == 3


async def test_a_run_that_continued_says_so():
    async with Environment(counting) as env:
        run = await env.client.start(counting, 0, 2)
        await run.result()
        first = await env.client.get_run(run.id)
        assert first.status is RunStatus.CONTINUED


async def test_ids_along_a_chain_are_no_longer_than_the_longest(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[counting_in_a_plain_body]):
        for length in (483, 484, 500):
            run = await client.start(counting_in_a_plain_body, 0, id="i" * length)
            assert await run.result(timeout=60) == 3
        ids = {run.id async for run in client.runs()}
    assert len(ids) == 12
    assert max(map(len, ids)) == 500


async def test_an_error_about_a_run_that_continued_names_the_run_that_it_continued_as():
    async with Environment(counting) as env:
        run = await env.client.start(counting, 0, 2)
        await run.result()
        successor = (await (await env.client.get_run(run.id)).refresh()).record.successor_id
        assert f"; it went on as run {successor}." in str(await env.client.explain(run.id))
        with pytest.raises(NotRetryable, match=f"it went on as run {re.escape(successor)}: retry that one"):
            await env.client.retry(run.id)


async def test_a_chain_stays_on_the_queue_that_it_was_started_on(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[counting_in_a_plain_body], queues=["slow"]):
        run = await client.start(counting_in_a_plain_body, 0, queue="slow")
        assert await run.result(timeout=60) == 3


async def test_each_run_of_a_chain_begins_with_an_empty_journal():
    lengths: list[int] = []

    @step
    async def look(length: int) -> None:
        lengths.append(length)

    @workflow
    async def looking(n: int) -> None:
        await look(holdfast.current_run().journal_length)
        if n:
            looking.continue_as_new(n - 1)

    async with Environment(looking) as env:
        await (await env.client.start(looking, 3)).result()
        assert len(set(lengths)) == 1


async def test_the_runs_of_a_chain_have_one_chain_id_and_ids_of_their_own():
    seen: list[tuple[str, str]] = []

    @step
    async def look(run_id: str, chain_id: str) -> None:
        seen.append((run_id, chain_id))

    @workflow
    async def looking(n: int) -> None:
        run = holdfast.current_run()
        await look(run.id, run.chain_id)
        if n:
            looking.continue_as_new(n - 1)

    async with Environment(looking) as env:
        run = await env.client.start(looking, 2)
        await run.result()
        assert len({one for one, _ in seen}) == 3
        assert {chain for _, chain in seen} == {run.id}


async def test_the_key_goes_with_the_chain():
    async with Environment(summing) as env:
        run = await env.client.start(summing, 0, 2, key="one")
        await run.signal("add", 1)
        await env.skip("1m")
        again = await env.client.start(summing, 0, 2, key="one")
        assert not again.created
        await again.signal("add", 2)
        assert await again.result() == 3


async def test_tags_and_priority_go_with_the_chain():
    @workflow
    async def tagged(n: int) -> list[Any]:
        if n:
            tagged.continue_as_new(n - 1)
        run = holdfast.current_run()
        return [dict(run.tags), run.priority]

    async with Environment(tagged) as env:
        run = await env.client.start(tagged, 1, tags={"colour": "red"}, priority=5)
        assert await run.result() == [{"colour": "red"}, 5]


async def test_a_chain_may_go_on_as_another_workflow():
    @workflow
    async def second(n: int) -> str:
        return f"second {n}"

    @workflow
    async def first() -> str:
        second.continue_as_new(7)

    async with Environment([first, second]) as env:
        assert await (await env.client.start(first)).result() == "second 7"


async def test_continuing_with_arguments_that_do_not_fit_raises_bad_arguments_at_the_call():
    @workflow
    async def careless() -> str:
        try:
            counting.continue_as_new("many", 5)  # type: ignore[arg-type]
        except holdfast.BadArguments:
            return "refused"

    async with Environment([careless, counting]) as env:
        assert await (await env.client.start(careless)).result() == "refused"


async def test_catching_every_exception_does_not_catch_the_continuation():
    @workflow
    async def catching(n: int) -> int:
        if n < 2:
            try:
                catching.continue_as_new(n + 1)
            except Exception:
                return -1
        return n

    async with Environment(catching) as env:
        assert await (await env.client.start(catching, 0)).result() == 2


async def test_only_the_main_task_may_continue():
    @workflow
    async def sideways() -> str:
        async def turn() -> None:
            holdfast.continue_as_new()

        try:
            await asyncio.create_task(turn())
        except holdfast.HoldfastError as error:
            return type(error).__name__
        return "continued"

    async with Environment(sideways) as env:
        assert await (await env.client.start(sideways)).result() != "continued"


async def test_a_cancel_of_the_first_run_reaches_the_live_one():
    async with Environment(summing) as env:
        run = await env.client.start(summing, 0, 2)
        await run.signal("add", 1)
        await env.skip("1m")
        await env.client.cancel(run.id)
        assert await run.wait() is RunStatus.CANCELLED


async def test_a_forced_cancel_of_the_first_run_lists_what_it_skipped_of_the_live_one():
    async with Environment(summing) as env:
        run = await env.client.start(summing, 0, 2)
        await run.signal("add", 1)
        await env.skip("1m")
        assert (await run.cancel(force=True)).skipped == ("a wait", "the cleanup of its body")


async def test_a_chain_goes_on_out_of_a_task_group():
    @workflow
    async def grouped(n: int) -> int:
        async with asyncio.TaskGroup() as group:
            group.create_task(holdfast.sleep("1d"))
            if await count(n) < 3:
                async with asyncio.TaskGroup():
                    grouped.continue_as_new(n + 1)
        return n

    async with Environment(grouped) as env:
        assert await (await env.client.start(grouped, 0)).result() == 2


async def test_a_task_that_fails_when_its_group_is_left_for_the_next_run_fails_this_one():
    @workflow
    async def grouped() -> None:
        async def unwilling() -> None:
            try:
                await holdfast.sleep("1d")
            finally:
                raise ConnectionError

        async with asyncio.TaskGroup() as group:
            group.create_task(unwilling())
            await count(1)
            grouped.continue_as_new()

    async with Environment(grouped) as env:
        with pytest.raises(holdfast.RunFailed) as failed:
            await (await env.client.start(grouped)).result()
    assert isinstance(failed.value.__cause__, ExceptionGroup)
    assert [type(one) for one in failed.value.__cause__.exceptions] == [ConnectionError]


async def test_values_and_streams_belong_to_the_chain():
    @workflow
    async def telling(n: int) -> None:
        holdfast.set_value("n", n)
        holdfast.emit("numbers", n)
        if n < 2:
            telling.continue_as_new(n + 1)

    async with Environment(telling) as env:
        run = await env.client.start(telling, 0)
        await run.wait()
        assert await run.value("n") == 2
        assert [item.value async for item in run.stream("numbers")] == [0, 1, 2]


async def test_a_child_is_cancelled_when_its_parent_continues():
    @workflow
    async def parent(n: int) -> str:
        if n == 0:
            await asyncio.wait([endless.options(id="the-child").start()], timeout=60)
            parent.continue_as_new(1)
        return "done"

    async with Environment([parent, endless]) as env:
        assert await (await env.client.start(parent, 0)).result() == "done"
        assert await (await env.client.get_run("the-child")).wait() is RunStatus.CANCELLED


async def test_a_parent_waits_for_the_end_of_its_childs_chain():
    @workflow
    async def parent() -> int:
        return await counting(0, 3)

    async with Environment([parent, counting]) as env:
        assert await (await env.client.start(parent)).result() == 3


def test_a_chain_survives_a_crash_at_every_commit():
    assert_durable(counting, 0, 3, effects=executed)


def test_a_plain_chain_survives_a_crash_at_every_commit():
    assert_durable(counting_in_a_plain_body, 1)


async def test_a_chain_goes_on_under_another_worker(url):
    async with AsyncClient(url) as client:
        run = await client.start(summing, 0, 3, key="one")
        async with Worker(client, workflows=[summing]):
            await until_waiting(run)
            await run.signal("add", 1)

            async def is_continued() -> bool:
                return (await (await client.get_run(run.id)).refresh()).status is RunStatus.CONTINUED

            await until(is_continued)
        await run.signal("add", 2)
        await client.signal(run.id, "add", 3)
        async with Worker(client, workflows=[summing]):
            assert await run.result(timeout=30) == 6
            assert await (await client.get_run(summing, key="one")).result(timeout=30) == 6


async def test_a_timeout_counts_for_all_runs_of_a_chain_together():
    @workflow
    async def tick(count: int) -> int:
        await holdfast.sleep("20s")
        return tick.continue_as_new(count + 1)

    async with Environment(tick) as env:
        run = await env.client.start(tick, 0)
        began = env.now
        with pytest.raises(TimeoutError, match="has not ended after 50s"):
            await run.result(timeout="50s")
        assert (env.now - began).total_seconds() == 50
