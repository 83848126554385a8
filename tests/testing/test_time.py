"""Time in an environment moves only when a test waits, and never without end."""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import timedelta

import pytest

import holdfast
from holdfast import RunCancelled, RunStatus, step, workflow
from holdfast.errors import (
    HoldfastError,
    JournalDiverged,
    NeverAwaited,
    RunEnded,
    RunFailed,
)
from holdfast.testing import Environment, takes
from tests.testing.environments import START, environment, for_ever, forty_days
from tests.testing.orders import ORDER, charge, checkout


async def test_time_jumps_to_the_next_timer_while_someone_waits():
    async with environment() as env:
        run = await env.client.start(checkout, ORDER)
        assert await run.result() == "4711 paid by paid"
        assert env.now - START == timedelta(days=1)


async def test_the_body_and_the_records_have_the_environments_time():
    async with environment() as env:
        run = await env.client.start(forty_days)
        assert await run.result() == str(START + timedelta(days=40))
        assert (await run.refresh()).record.created_at == START
        assert run.record.ended_at == START + timedelta(days=40)


async def test_no_real_time_passes():
    began = time.monotonic()
    async with environment() as env:
        await (await env.client.start(forty_days)).wait()
    assert timedelta(seconds=time.monotonic() - began) < timedelta(days=1)


async def test_time_does_not_move_outside_the_three_calls():
    async with environment() as env:
        run = await env.client.start(checkout, ORDER)
        await env.until_waiting(run)
        await env.client.explain(run.id)
        await run.refresh()
        assert env.now == START
        assert run.status is RunStatus.WAITING


async def test_skip_moves_time_by_exactly_so_much():
    async with environment() as env:
        run = await env.client.start(checkout, ORDER)
        await env.skip("23h59m")
        assert not (await run.refresh()).status.is_final
        await env.skip("1m")
        assert (await run.refresh()).status is RunStatus.COMPLETED
        assert env.now - START == timedelta(days=1)


async def test_skip_lets_everything_on_the_way_happen_at_its_own_time():
    seen = []

    @step
    async def look() -> None:
        seen.append(env.now - START)

    @workflow
    async def ticking() -> None:
        for _ in range(3):
            await holdfast.sleep("1h")
            await look()

    async with environment(workflows=[ticking]) as env:
        await env.client.start(ticking)
        await env.skip("1d")
        assert seen == [timedelta(hours=1), timedelta(hours=2), timedelta(hours=3)]
        assert env.now - START == timedelta(days=1)


async def test_a_timeout_of_result_counts_by_the_environments_clock():
    async with environment() as env:
        run = await env.client.start(forty_days)
        with pytest.raises(TimeoutError, match="has not ended after 1h"):
            await run.result(timeout="1h")
        assert env.now - START == timedelta(hours=1)
        assert await run.wait(timeout="40d") is RunStatus.COMPLETED


async def test_a_delayed_start_begins_when_its_time_has_come():
    async with environment() as env:
        run = await env.client.start(checkout.options(delay="2h"), ORDER)
        assert (await env.until_waiting(run)).reason == "not_due"
        assert env.calls(charge) == []
        await run.wait()
        assert env.now - START == timedelta(days=1, hours=2)


async def test_a_deadline_is_kept():
    async with environment() as env:
        run = await env.client.start(forty_days.options(deadline="1d"))
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert isinstance(failed.value.__cause__, holdfast.DeadlineExceeded)
        assert env.now - START == timedelta(days=1)


async def test_two_waiting_tasks_see_the_state_of_each_moment():
    async with environment() as env:
        long, short = await env.client.start(forty_days), await env.client.start(checkout, ORDER)

        async def cancel_after_the_short_one() -> None:
            await short.result()
            await long.cancel(reason="enough")

        _, outcome = await asyncio.gather(cancel_after_the_short_one(), long.wait())
        assert outcome is RunStatus.CANCELLED
        assert env.now - START == timedelta(days=1)


async def test_a_wait_without_end_raises_and_says_what_the_run_waits_for():
    async with environment() as env:
        run = await env.client.start(for_ever)
        with pytest.raises(HoldfastError, match=r"would never end: nothing is under way.*waits on worker"):
            await run.result()


async def test_a_wait_for_a_workflow_that_the_environment_does_not_know_raises():
    async with environment(workflows=[checkout]) as env:
        run = await env.client.start(for_ever)
        with pytest.raises(HoldfastError, match=r"no live worker knows 'for_ever'"):
            await run.result()


@workflow
async def has_a_child(child: str) -> None:
    await {"whimsical": whimsical, "unknown": forty_days, "waits": for_ever}[child]()


@workflow
async def whimsical() -> None:
    await charge(str(uuid.uuid4()), 1)
    await charge("4711", 1)


@pytest.mark.parametrize(
    ("child", "error", "what"),
    [
        ("whimsical", JournalDiverged, r"<run .*whimsical.*> does not match its journal"),
        ("unknown", HoldfastError, r"(?s)waits for the child run.*no live worker knows 'forty_days'"),
        ("waits", HoldfastError, r"(?s)waits for the child run.* of 'for_ever' waits on worker"),
    ],
)
async def test_a_wait_without_end_says_what_keeps_the_child_that_the_run_waits_for(child, error, what):
    async with environment(workflows=[has_a_child, whimsical, for_ever]) as env:
        run = await env.client.start(has_a_child, child)
        with pytest.raises(error, match=what):
            await run.result()


async def test_time_that_moves_without_end_raises():
    @workflow
    async def ticking() -> None:
        while True:
            async with asyncio.timeout(60):
                await holdfast.sleep("30s")

    async with environment(workflows=[ticking]) as env:
        env._entered.most_jumps = 50
        run = await env.client.start(ticking)
        with pytest.raises(HoldfastError, match="time was moved 50 times"):
            await run.result()


async def test_a_cancelled_run_raises_with_its_reason():
    async with environment() as env:
        run = await env.client.start(for_ever)
        await env.until_waiting(run)
        await run.cancel(reason="no longer wanted")
        with pytest.raises(RunCancelled, match="no longer wanted"):
            await run.result()


async def test_a_blocked_run_does_not_keep_time_moving_for_others():
    @workflow
    async def blocked() -> None:
        charge.start("1", 1)

    async with environment(workflows=[blocked, for_ever]) as env:
        with pytest.raises(NeverAwaited, match="never looked at"):
            await (await env.client.start(blocked)).result()
        run = await env.client.start(for_ever)
        with pytest.raises(HoldfastError, match="nothing is under way"):
            await run.result()


async def test_until_waiting_follows_a_chain():
    @workflow
    async def twice(n: int) -> None:
        await holdfast.sleep("1h") if n else twice.continue_as_new(n + 1)

    async with Environment(twice) as env:
        run = await env.client.start(twice, 0)
        assert (await env.until_waiting(run)).run_id != run.id


async def test_until_waiting_refuses_a_run_that_has_ended():
    async with environment() as env:
        run = await env.client.start(checkout, ORDER)
        await run.wait()
        with pytest.raises(RunEnded, match="ask for its result"):
            await env.until_waiting(run)


async def test_slow_steps_race_by_the_environments_clock():
    @workflow
    async def race() -> str:
        first = asyncio.ensure_future(charge("slow", 1))
        second = asyncio.ensure_future(charge("quick", 1))
        done, left = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        return done.pop().result()

    def stub(card: str, cents: int) -> object:
        return takes("10s" if card == "slow" else "1s", card)

    async with environment(workflows=[race], stubs={charge: stub}) as env:
        assert await (await env.client.start(race)).result() == "quick"
        assert env.now - START == timedelta(seconds=1)
