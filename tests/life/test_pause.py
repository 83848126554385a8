"""Pause: no turn is taken; steps in flight end, timers wait, the deadline runs on, a cancel acts."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast import (
    AsyncClient,
    DeadlineExceeded,
    RunCancelled,
    RunEnded,
    RunFailed,
    RunFilter,
    RunNotFound,
    RunStatus,
    Worker,
    step,
    workflow,
)
from holdfast.testing import Environment
from tests.life.waiting import until, until_waiting, waiting_for_its_deadline


@step
async def double(n: int) -> int:
    return 2 * n


@workflow
async def told() -> Any:
    return await holdfast.wait_for_signal("go")


@workflow
async def sleepy() -> str:
    await holdfast.sleep("1h")
    return str(await double(1))


@workflow
async def quick() -> int:
    return await double(1)


async def is_paused(run: Any) -> bool:
    record = (await run.refresh()).record
    return bool(record is not None and record.paused)


async def test_a_paused_run_takes_no_signal_until_it_is_resumed():
    async with Environment(told) as env:
        run = await env.client.start(told)
        await env.until_waiting(run)
        assert await env.client.pause(run.id) == 1
        await run.signal("go", 1)
        await env.skip("1d")
        assert not (await run.refresh()).status.is_final
        assert await env.client.resume(run.id) == 1
        assert await run.result() == 1


async def test_a_paused_run_does_not_begin():
    async with Environment(quick) as env:
        run = await env.client.start(quick, delay="1m")
        await env.client.pause(run.id)
        await env.skip("1h")
        assert env.calls(double) == []
        await env.client.resume(run.id)
        assert await run.result() == 2


async def test_a_timer_of_a_paused_run_waits():
    async with Environment(sleepy) as env:
        run = await env.client.start(sleepy)
        await env.until_waiting(run)
        await env.client.pause(run.id)
        await env.skip("2h")
        assert env.calls(double) == []
        begun = env.now
        await env.client.resume(run.id)
        assert await run.result() == "2"
        assert env.now == begun


async def test_a_paused_run_fails_when_its_deadline_comes():
    async with Environment(told) as env:
        begun = env.now
        run = await env.client.start(told, deadline="1h")
        await env.until_waiting(run)
        await env.client.pause(run.id)
        assert await run.wait() is RunStatus.FAILED
        assert env.now - begun == timedelta(hours=1)


async def test_a_paused_run_that_never_began_fails_when_its_deadline_comes():
    async with Environment(quick) as env:
        run = await env.client.start(quick, delay="1m", deadline="1h")
        await env.client.pause(run.id)
        assert await run.wait() is RunStatus.FAILED
        assert env.calls(double) == []


async def test_a_run_whose_deadline_comes_in_a_pause_cleans_up():
    @workflow
    async def careful() -> None:
        try:
            await holdfast.sleep("1d")
        finally:
            await holdfast.sleep("1h")
            await double(1)

    async with Environment(careful) as env:
        run = await env.client.start(careful, deadline="1h")
        await env.until_waiting(run)
        await env.client.pause(run.id)
        assert await run.wait() is RunStatus.FAILED
        assert len(env.calls(double)) == 1


async def test_a_cancel_reaches_a_paused_run():
    async with Environment(told) as env:
        run = await env.client.start(told)
        await env.until_waiting(run)
        await env.client.pause(run.id)
        await run.cancel()
        assert await run.wait() is RunStatus.CANCELLED


@workflow
async def dozing() -> str:
    await holdfast.sleep("1h")
    return "slept"


@workflow
async def impatient() -> str:
    return str(await holdfast.wait_for_signal("go", timeout="1h", default="nothing"))


@pytest.mark.parametrize("body", [dozing, impatient])
async def test_a_cancel_acts_before_timers_that_came_due_in_the_pause(body):
    async with Environment(body) as env:
        run = await env.client.start(body)
        await env.until_waiting(run)
        await env.client.pause(run.id)
        await env.skip("2h")
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()


@pytest.mark.parametrize("body", [dozing, impatient])
async def test_a_deadline_acts_before_timers_that_came_due_in_the_pause(body):
    async with Environment(body) as env:
        run = await env.client.start(body, deadline="90m")
        await env.until_waiting(run)
        await env.client.pause(run.id)
        await env.skip("2h")
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert isinstance(failed.value.__cause__, DeadlineExceeded)


async def test_pausing_twice_counts_once():
    async with Environment(told) as env:
        run = await env.client.start(told)
        assert [await env.client.pause(run.id), await env.client.pause(run.id)] == [1, 0]
        assert [await env.client.resume(run.id), await env.client.resume(run.id)] == [1, 0]


async def test_an_ended_run_cannot_be_paused():
    async with Environment(quick) as env:
        run = await env.client.start(quick)
        await run.result()
        with pytest.raises(RunEnded):
            await env.client.pause(run.id)


@workflow
async def rounds(left: int) -> str:
    if left:
        await holdfast.wait_for_signal("next")
        rounds.continue_as_new(left - 1)
    return str(await holdfast.wait_for_signal("end"))


async def test_pausing_the_first_run_of_a_chain_pauses_its_live_run():
    async with Environment(rounds) as env:
        run = await env.client.start(rounds, 2)
        for _ in range(2):
            await env.client.signal(run.id, "next")
        await env.until_waiting(run)
        assert [await env.client.pause(run.id), await env.client.pause(run.id)] == [1, 0]
        [live] = [one async for one in env.client.runs(RunFilter(status="waiting"))]
        assert await is_paused(live)
        await env.client.signal(run.id, "end", "the end")
        assert [await env.client.resume(run.id), await env.client.resume(run.id)] == [1, 0]
        assert await run.result() == "the end"
        with pytest.raises(RunEnded, match="has ended \\(completed\\)"):
            await env.client.pause(run.id)


async def test_pausing_an_unknown_id_raises_run_not_found():
    async with Environment(quick) as env:
        with pytest.raises(RunNotFound):
            await env.client.pause("nobody")


async def test_a_filter_pauses_and_resumes_many():
    async with Environment([told, sleepy]) as env:
        runs = await env.client.start_many(told, [(), (), ()])
        other = await env.client.start(sleepy)
        assert await env.client.pause(RunFilter(workflow="told")) == 3
        assert [await is_paused(run) for run in [*runs, other]] == [True, True, True, False]
        assert await env.client.resume(RunFilter(workflow="told")) == 3


async def test_a_run_that_continues_as_new_while_many_are_paused_is_paused_where_it_goes_on(monkeypatch):
    async with Environment([told, rounds]) as env:
        await env.client.start(told)
        chain = await env.client.start(rounds, 2)
        await env.until_waiting(chain)
        pause_runs = env.client.store.pause_runs

        async def late(run_ids, paused):
            monkeypatch.setattr(env.client.store, "pause_runs", pause_runs)
            await env.client.signal(chain.id, "next")
            await env.until_waiting(chain)
            return await pause_runs(run_ids, paused)

        monkeypatch.setattr(env.client.store, "pause_runs", late)
        assert await env.client.pause(RunFilter()) == 2
        [live] = [one async for one in env.client.runs(RunFilter(workflow=rounds, status="waiting"))]
        assert await is_paused(live)
        assert live.id != chain.id
        assert await env.client.resume(RunFilter()) == 2


async def test_explain_says_that_a_run_is_paused():
    async with Environment(told) as env:
        run = await env.client.start(told)
        await env.client.pause(run.id)
        assert "paused" in str(await env.client.explain(run.id))


async def test_a_step_in_flight_ends_and_the_run_goes_on_when_it_is_resumed(url):
    begun, go_on = asyncio.Event(), asyncio.Event()
    executed: list[int] = []

    @step
    async def slow() -> int:
        executed.append(1)
        begun.set()
        await go_on.wait()
        return 7

    @workflow
    async def slowly() -> int:
        # The pause reaches the worker during one of these.
        return await slow() + sum([await double(number) for number in range(200)])

    async with AsyncClient(url) as client, Worker(client, workflows=[slowly]):
        run = await client.start(slowly)
        await begun.wait()
        await client.pause(run.id)
        go_on.set()

        async def is_given_back() -> bool:
            record = (await run.refresh()).record
            return record is not None and record.owner is None

        await until(is_given_back)
        assert not run.status.is_final
        await client.resume(run.id)
        assert await run.result(timeout=30) == 7 + 200 * 199
        assert executed == [1]


async def test_a_paused_run_fails_when_its_deadline_comes_on_every_store(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[told]):
        run = await waiting_for_its_deadline(client, told, is_paused=True)
        assert await run.wait(timeout=30) is RunStatus.FAILED


async def test_a_paused_run_stays_so_under_another_worker(url):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[told]):
            run = await client.start(told)
            await until_waiting(run)
            await client.pause(run.id)
        await run.signal("go", 1)
        async with Worker(client, workflows=[told, quick]):
            assert await (await client.start(quick)).result(timeout=30) == 2
            assert not (await run.refresh()).status.is_final
            await client.resume(run.id)
            assert await run.result(timeout=30) == 1
