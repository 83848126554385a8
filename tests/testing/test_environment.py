"""Environment: workflows in memory, with real steps beside stubbed ones, and a replay after every turn."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast import Retry, RunStatus, step, workflow
from holdfast.errors import (
    DefinitionError,
    JournalDiverged,
    MisplacedCall,
)
from tests.testing.environments import START, environment, forty_days
from tests.testing.orders import ORDER, charge, checkout, ship


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


async def test_an_environment_must_be_entered_and_only_once():
    env = environment()
    with pytest.raises(DefinitionError, match="inside `async with"):
        _ = env.client
    async with env:
        pass
    with pytest.raises(DefinitionError, match="make another one"):
        await env.__aenter__()


async def test_a_follower_of_a_stream_sees_items_while_another_task_moves_time():
    @workflow
    async def talking() -> None:
        holdfast.emit("words", "first")
        await holdfast.sleep("1d")
        holdfast.emit("words", "last")

    async with environment(workflows=[talking]) as env:
        run = await env.client.start(talking)
        words = run.stream("words")
        assert (await anext(words)).value == "first"
        last = asyncio.ensure_future(anext(words))
        await env.skip("1d")
        assert (await last).value == "last"


MOVES = {
    "result": lambda env, run: run.result(),
    "wait": lambda env, run: run.wait(),
    "skip": lambda env, run: env.skip("1d"),
    "until_waiting": lambda env, run: env.until_waiting(run),
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_an_environment_refuses_another_event_loop_than_it_was_entered_in(move):
    # The fixture of a session and a test have a loop each, unless they are told to share one.
    env = environment()

    async def use_it() -> None:
        await move(env, await env.client.start(checkout, ORDER))

    with asyncio.Runner() as fixture, asyncio.Runner() as test:
        fixture.run(env.__aenter__())
        with pytest.raises(MisplacedCall, match="another event loop"):
            test.run(use_it())
        fixture.run(env.__aexit__(None, None, None))


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


@workflow(on_event="paid")
async def paid_again(_: Any) -> str:
    return await holdfast.wait_for_event("paid", timeout="1h", default="nothing")


@workflow
async def next_paid() -> str:
    return await holdfast.wait_for_event("paid", timeout="1h", default="nothing")


async def test_a_run_does_not_get_an_event_that_was_published_before_it_was_started_though_time_stands_still():
    async with environment(workflows=[next_paid]) as env:
        early = await env.client.start(next_paid)
        await env.client.publish("paid", "first")
        late = await env.client.start(next_paid)
        assert [await early.result(), await late.result()] == ["first", "nothing"]


async def test_a_run_that_an_event_began_does_not_get_that_event_once_more():
    async with environment(workflows=[paid_again]) as env:
        await env.client.publish("paid", "first")
        await env.skip(0)
        [run] = [run async for run in env.client.runs()]
        assert await run.result() == "nothing"


async def test_a_child_gets_what_its_parents_turn_publishes_and_not_what_an_earlier_turn_published():
    @workflow
    async def publishes() -> list[str]:
        holdfast.publish("paid", "first")
        ship(ORDER, "4711")
        holdfast.publish("paid", "second")
        return [await next_paid(), await next_paid()]

    async with environment(workflows=[publishes, next_paid]) as env:
        assert await (await env.client.start(publishes)).result() == ["second", "nothing"]
