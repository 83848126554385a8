"""A pause, and what may come during it: cancels, timers, signals, the resume."""

from __future__ import annotations

from datetime import timedelta

import pytest

import holdfast
from holdfast import RunCancelled, step, workflow
from holdfast.testing import Environment, takes


@step
async def long_work() -> str:
    return "worked"


@workflow
async def cleans_up_slowly() -> None:
    try:
        await holdfast.sleep("10h")
    finally:
        await holdfast.sleep("1h")


@workflow
async def cleans_up_after_work() -> None:
    try:
        await long_work()
    finally:
        await holdfast.sleep("1h")


@workflow
async def sleeps_beside_work() -> str:
    work = long_work.start()
    await holdfast.sleep("10s")
    return await work


@workflow
async def listens_beside_work() -> object:
    work = long_work.start()
    heard = await holdfast.wait_for_signal("said")
    holdfast.set_value("heard", heard)
    return await work


@workflow(deadline="1h")
async def cleans_up_beside_work() -> None:
    try:
        await holdfast.sleep("10h")
    finally:
        work = long_work.start()
        await holdfast.sleep("10s")
        await work


async def test_a_paused_run_that_is_cancelled_cleans_up_to_its_end() -> None:
    async with Environment([cleans_up_slowly]) as env:
        run = await env.client.start(cleans_up_slowly)
        await env.until_waiting(run)
        await env.client.pause(run.id)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(timeout="1d")


async def test_a_pausing_run_with_a_step_in_flight_that_is_cancelled_cleans_up_to_its_end() -> None:
    async with Environment([cleans_up_after_work], stubs={long_work: takes("9h", "worked")}) as env:
        run = await env.client.start(cleans_up_after_work)
        await env.skip("1s")
        await env.client.pause(run.id)
        await env.skip("1s")
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(timeout="2h")


async def test_the_result_of_a_step_that_ends_in_a_pause_is_recorded_there_and_delivered_on_resume() -> None:
    async with Environment([sleeps_beside_work], stubs={long_work: takes("1h", "worked")}) as env:
        run = await env.client.start(sleeps_beside_work)
        await env.skip("1s")
        await env.client.pause(run.id)
        await env.skip("2h")
        assert "step_completed" in [entry.kind for entry in await env.client.journal(run.id)]
        await env.client.resume(run.id)
        assert (await run.result(), len(env.calls(long_work))) == ("worked", 1)


async def test_a_timer_waits_while_a_step_of_a_paused_run_is_in_flight() -> None:
    async with Environment([sleeps_beside_work], stubs={long_work: takes("1h", "worked")}) as env:
        run = await env.client.start(sleeps_beside_work)
        await env.skip("1s")
        await env.client.pause(run.id)
        await env.skip("5m")
        assert "timer_fired" not in [entry.kind for entry in await env.client.journal(run.id)]
        await env.client.resume(run.id)
        assert await run.result(timeout="2h") == "worked"


async def test_a_timer_that_was_due_in_a_pause_fires_on_resume_although_a_step_is_in_flight() -> None:
    async with Environment([sleeps_beside_work], stubs={long_work: takes("1h", "worked")}) as env:
        run = await env.client.start(sleeps_beside_work)
        await env.skip("1s")
        await env.client.pause(run.id)
        await env.skip("5m")
        await env.client.resume(run.id)
        await env.skip("1s")
        assert "timer_fired" in [entry.kind for entry in await env.client.journal(run.id)]


async def test_a_deadline_is_met_in_a_pause_although_a_step_is_in_flight_and_a_timer_was_due_before() -> None:
    async with Environment([sleeps_beside_work], stubs={long_work: takes("9h", "worked")}) as env:
        begun = env.now
        run = await env.client.start(sleeps_beside_work, deadline="1h")
        await env.skip("1s")
        await env.client.pause(run.id)
        assert (await run.wait(), env.now - begun) == ("failed", timedelta(hours=1))


async def test_a_timer_of_a_cleanup_after_the_deadline_waits_in_a_pause() -> None:
    async with Environment([cleans_up_beside_work], stubs={long_work: takes("9h", "worked")}) as env:
        run = await env.client.start(cleans_up_beside_work)
        await env.skip("3601s")
        await env.client.pause(run.id)
        await env.skip("5m")
        assert [entry.kind for entry in await env.client.journal(run.id)] == ["started", "cancel", "step_asked"]


async def test_a_signal_waits_while_a_step_of_a_paused_run_is_in_flight() -> None:
    async with Environment([listens_beside_work], stubs={long_work: takes("1h", "worked")}) as env:
        run = await env.client.start(listens_beside_work)
        await env.skip("1s")
        await env.client.pause(run.id)
        await env.skip("1s")
        await run.signal("said", "something")
        await env.skip("5m")
        assert "signal" not in [entry.kind for entry in await env.client.journal(run.id)]


async def test_a_run_that_is_resumed_with_a_step_in_flight_hears_signals_at_once() -> None:
    async with Environment([listens_beside_work], stubs={long_work: takes("9h", "worked")}) as env:
        run = await env.client.start(listens_beside_work)
        await env.skip("1s")
        await env.client.pause(run.id)
        await env.skip("1s")
        await env.client.resume(run.id)
        await env.client.signal(run.id, "said", "hello")
        await env.skip("1m")
        assert await run.value("heard") == "hello"
