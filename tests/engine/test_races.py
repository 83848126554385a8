"""P5: races, timeouts and withdrawals are decided once, and replay takes the same branch."""

from __future__ import annotations

import asyncio

from holdfast import sleep, workflow
from tests.engine.drive import note
from tests.engine.samples import double, echo


@workflow
async def race() -> list[object]:
    tasks = [asyncio.create_task(echo(n), name=str(n)) for n in range(3)]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for one in rest:
        one.cancel()
    note(sorted(one.get_name() for one in done))
    return [one.result() for one in done]


def test_a_race_has_one_winner_even_if_two_results_come_in_one_turn(begin):
    drive = begin(race)
    drive.take(drive.completed("echo:1"), drive.completed("echo:0" if "echo:0" in drive.open else "echo"))
    assert drive.result == [1]


def test_the_first_of_a_race_is_the_same_on_replay(begin):
    drive = begin(race)
    drive.complete("echo:2")
    assert drive.check().result == [2]


def test_the_losers_of_a_race_are_withdrawn(begin):
    drive = begin(race)
    drive.complete("echo:1")
    assert drive.withdrawn == ["echo", "echo:2"]


def test_the_losers_of_a_race_do_not_hold_up_a_later_replay(begin):
    @workflow
    async def body() -> object:
        tasks = [asyncio.create_task(echo(n)) for n in range(2)]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in rest:
            one.cancel()
        note([await one for one in done])
        return await double(await double(1))

    drive = begin(body)
    drive.complete("echo:1")
    drive.finish().check()
    assert drive.result == 4


def test_a_loser_that_is_not_cancelled_may_still_end(begin):
    @workflow
    async def body() -> list[object]:
        tasks = {asyncio.create_task(echo(n)) for n in range(3)}
        order = []
        while tasks:
            done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            order += [one.result() for one in done]
            note(list(order))
        return order

    drive = begin(body)
    for key in ("echo:1", "echo", "echo:2"):
        drive.complete(key)
    assert drive.check().result == [1, 0, 2]


def test_a_result_that_nobody_waits_for_any_more_is_left_out_of_the_journal(begin):
    @workflow
    async def body() -> int:
        loser = asyncio.create_task(echo(1))
        await double(1)
        loser.cancel()
        return await double(2)

    drive = begin(body)
    late = drive.completed("echo")
    drive.complete("double")
    drive.take(late)
    assert late not in drive.entries


def test_results_and_withdrawals_in_one_turn_leave_the_late_result_out(begin):
    """The winner's result cancels the loser, whose own result comes later in the same turn."""
    drive = begin(race)
    drive.take(drive.completed("echo:1"), drive.completed("echo:2"))
    assert [getattr(entry, "key", None) for entry in drive.entries[-2:]] == ["echo:1", None]


def test_a_step_asked_for_and_withdrawn_in_one_turn_is_not_begun(begin):
    @workflow
    async def body() -> object:
        await double(1)
        task = asyncio.create_task(echo(1))
        await asyncio.sleep(0)
        task.cancel()
        return await double(2)

    drive = begin(body)
    drive.complete("double")
    assert drive.begun == ["double:1"]


def test_a_step_withdrawn_in_the_turn_that_asked_for_it_replays(begin):
    @workflow
    async def body() -> object:
        await double(1)
        task = asyncio.create_task(echo(1))
        await asyncio.sleep(0)
        task.cancel()
        return await double(2)

    assert begin(body).finish().check().result == 4


def test_a_timeout_that_fires_takes_the_same_branch_on_replay(begin):
    @workflow
    async def body() -> str:
        try:
            async with asyncio.timeout(5):
                await double(1)
        except TimeoutError:
            note("late")
            return f"late {await double(2)}"
        return "in time"

    drive = begin(body)
    drive.fire()
    assert drive.withdrawn == ["double"]
    drive.complete("double:1")
    assert drive.check().result == "late 4"


def test_a_timeout_that_does_not_fire_leaves_no_timer(begin):
    @workflow
    async def body() -> int:
        async with asyncio.timeout(5):
            await double(1)
        return await double(2)

    drive = begin(body)
    drive.complete("double")
    assert drive.execution.next_timer() is None
    assert drive.finish().check().result == 4


def test_a_race_between_a_step_and_a_sleep_is_decided_once(begin):
    @workflow
    async def body() -> str:
        step, timer = asyncio.create_task(double(1)), asyncio.create_task(sleep("1m"))
        done, rest = await asyncio.wait({step, timer}, return_when=asyncio.FIRST_COMPLETED)
        for one in rest:
            one.cancel()
        await double(2)
        return "step" if step in done else "timer"

    drive = begin(body)
    drive.fire()
    assert drive.finish().check().result == "timer"
