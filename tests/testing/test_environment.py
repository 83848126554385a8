"""Environment: workflows in memory, and time that moves only when a test waits."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast import Retry, RunCancelled, RunStatus, step, workflow
from holdfast.errors import (
    BadDuration,
    DefinitionError,
    DuplicateWorkflow,
    HoldfastError,
    JournalDiverged,
    NeverAwaited,
    RunEnded,
    RunFailed,
)
from holdfast.testing import Environment, takes
from tests.testing.orders import ORDER, charge, checkout, ship

START = datetime(2030, 1, 1, tzinfo=UTC)


@workflow
async def for_ever() -> None:
    await asyncio.Event().wait()


@workflow
async def forty_days() -> str:
    await holdfast.sleep("40d")
    return str(holdfast.now())


def environment(**given):
    return Environment(
        **{"workflows": [checkout, for_ever, forty_days], "stubs": {charge: "paid"}, "start": START, **given}
    )


# -- time ------------------------------------------------------------------------------------------------------------


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
    assert time.monotonic() - began < 5


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


async def test_two_who_wait_see_the_world_at_each_moment():
    async with environment() as env:
        long, short = await env.client.start(forty_days), await env.client.start(checkout, ORDER)

        async def cancel_after_the_short_one() -> None:
            await short.result()
            await long.cancel(reason="enough")

        _, outcome = await asyncio.gather(cancel_after_the_short_one(), long.wait())
        assert outcome is RunStatus.CANCELLED
        assert env.now - START == timedelta(days=1)


# -- waits without end -----------------------------------------------------------------------------------------------


async def test_a_wait_without_end_raises_and_says_what_the_run_waits_for():
    async with environment() as env:
        run = await env.client.start(for_ever)
        with pytest.raises(HoldfastError, match=r"would never end: nothing is under way.*waits for a message"):
            await run.result()


async def test_a_wait_for_a_workflow_that_the_environment_does_not_know_raises():
    async with environment(workflows=[checkout]) as env:
        run = await env.client.start(for_ever)
        with pytest.raises(HoldfastError, match=r"no live worker knows 'for_ever'"):
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


async def test_until_waiting_refuses_a_run_that_has_ended():
    async with environment() as env:
        run = await env.client.start(checkout, ORDER)
        await run.wait()
        with pytest.raises(RunEnded, match="ask for its result"):
            await env.until_waiting(run)


# -- steps -----------------------------------------------------------------------------------------------------------


async def test_steps_that_are_not_stubbed_are_executed_on_the_loop_and_in_threads():
    @step
    async def double(n: int) -> int:
        return 2 * n

    @step
    def negate(n: int) -> int:
        return -n

    @workflow
    def both(n: int) -> int:
        return double(n) + negate(n)

    async with environment(workflows=[both]) as env:
        assert await (await env.client.start(both, 21)).result() == 21
        assert [call.args for call in env.calls(double)] == [call.args for call in env.calls(negate)] == [(21,)]


async def test_a_step_in_flight_holds_time_back():
    gate = asyncio.Event()

    @step
    async def wait_at_the_gate() -> str:
        await gate.wait()
        return "through"

    @workflow
    async def race() -> str:
        try:
            async with asyncio.timeout(10):
                return await wait_at_the_gate()
        except TimeoutError:
            return "late"

    async with environment(workflows=[race]) as env:
        run = await env.client.start(race)
        waiting = asyncio.ensure_future(run.result())
        for _ in range(50):
            await asyncio.sleep(0)
        gate.set()
        assert await waiting == "through"
        assert env.now == START


async def test_a_cancel_reaches_a_run_whose_step_is_in_flight():
    begun = asyncio.Event()

    @step
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    async def hanging() -> None:
        await hang()

    async with environment(workflows=[hanging]) as env:
        run = await env.client.start(hanging)
        waiting = asyncio.ensure_future(run.wait())
        await begun.wait()
        await run.cancel()
        assert await waiting is RunStatus.CANCELLED


async def test_a_step_may_wait_for_another_run_of_the_environment():
    @step
    async def have_it_done() -> str:
        return await (await env.client.start(forty_days.options(id="inner"))).result()

    @workflow
    async def outer() -> str:
        return await have_it_done()

    async with environment(workflows=[outer, forty_days]) as env:
        assert await (await env.client.start(outer)).result() == str(START + timedelta(days=40))


async def test_a_step_that_outlives_the_environment_is_cancelled():
    ended = []

    @step
    async def hang() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    @workflow
    async def hanging() -> None:
        await hang()

    begun = asyncio.Event()
    async with environment(workflows=[hanging]) as env:
        waiting = asyncio.ensure_future((await env.client.start(hanging)).wait())
        await begun.wait()
        waiting.cancel()
    assert ended == [True]


# -- finding what memory would hide ----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [time.time_ns, lambda: random.randrange(10**12)], ids=["time", "random"])
async def test_a_body_that_is_not_deterministic_is_blocked(number):
    @workflow
    async def restless() -> None:
        await charge("4711", number())
        await charge("4711", 1)

    async with environment(workflows=[restless]) as env:
        with pytest.raises(JournalDiverged, match="with other arguments"):
            await (await env.client.start(restless)).result()


async def test_a_body_that_remembers_outside_itself_is_blocked():
    seen = []

    @workflow
    async def forgetful() -> int:
        seen.append(1)
        await charge("4711", len(seen))
        await charge("4711", 1)
        return len(seen)

    async with environment(workflows=[forgetful]) as env:
        with pytest.raises(JournalDiverged):
            await (await env.client.start(forgetful)).result()


async def test_the_runs_own_dice_and_clock_are_the_same_on_every_replay():
    @workflow
    async def dicing() -> None:
        for _ in range(3):
            await charge(str(holdfast.uuid4()), holdfast.rng().randrange(10**9))
            await holdfast.sleep("1h")
            await charge(str(holdfast.now()), 1)

    async with environment(workflows=[dicing]) as env:
        assert await (await env.client.start(dicing)).wait() is RunStatus.COMPLETED
        assert len(env.calls(charge)) == 6


# -- what it is given ------------------------------------------------------------------------------------------------


async def test_resources_are_opened_and_closed():
    opened = []

    @holdfast.resource
    async def pool():
        opened.append("open")
        yield "the pool"
        opened.append("closed")

    @step
    async def use() -> str:
        return pool()

    @workflow
    async def using() -> str:
        return await use()

    async with environment(workflows=[using], resources=[pool]) as env:
        assert await (await env.client.start(using)).result() == "the pool"
        assert opened == ["open"]
    assert opened == ["open", "closed"]
    async with environment(workflows=[using], resources={pool: "another"}) as env:
        assert await (await env.client.start(using)).result() == "another"
    assert opened == ["open", "closed"]


async def test_middleware_wraps_stubs_too():
    wrapped = []

    @contextlib.contextmanager
    def note(info):
        wrapped.append(info.name)
        yield

    async with environment(middleware=[note]) as env:
        await (await env.client.start(checkout, ORDER)).wait()
    assert wrapped == ["charge", "ship"]


async def test_one_workflow_may_be_given_bare():
    async with Environment(checkout, stubs={charge: "paid"}) as env:
        assert await (await env.client.start(checkout, ORDER)).wait() is RunStatus.COMPLETED


def test_bad_workflows_are_refused():
    @workflow(name="checkout")
    async def other() -> None: ...

    with pytest.raises(DefinitionError, match="at least one workflow"):
        Environment(workflows=[])
    with pytest.raises(DefinitionError, match="decorated with @workflow"):
        Environment(workflows=[print])
    with pytest.raises(DuplicateWorkflow, match="'checkout'"):
        Environment(workflows=[checkout, other])
    with pytest.raises(BadDuration, match="aware datetime"):
        Environment(workflows=[checkout], start=datetime(2030, 1, 1))


async def test_it_must_be_entered_and_only_once():
    env = environment()
    with pytest.raises(DefinitionError, match="inside `async with"):
        _ = env.client
    async with env:
        pass
    with pytest.raises(DefinitionError, match="make another one"):
        await env.__aenter__()


async def test_many_runs_live_side_by_side():
    async with environment() as env:
        runs = await env.client.start_many(checkout, [(ORDER,)] * 50)
        assert {await run.result() for run in runs} == {"4711 paid by paid"}
        assert len(env.calls(ship)) == 50


async def test_a_retried_run_goes_on_where_it_stopped():
    answers = iter([ValueError("no"), "shipped"])

    def answer(*_):
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    @workflow
    async def once(card: str) -> str:
        await charge(card, 1)
        return ship.options(retry=Retry(attempts=1))(ORDER, card)

    async with environment(workflows=[once], stubs={charge: "paid", ship: answer}) as env:
        run = await env.client.start(once, "4711")
        assert await run.wait() is RunStatus.FAILED
        assert await (await env.client.retry(run.id)).result() == "shipped"
        assert len(env.calls(charge)) == 1


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
