"""A run's own time: that of the last entry delivered to it, whatever any clock says."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

import holdfast
from holdfast import now, sleep, workflow
from tests.engine.drive import START, note
from tests.engine.samples import double

SECOND = 1_000_000


def test_a_timer_counts_from_the_entry_before_it(begin):
    @workflow
    async def body() -> None:
        await double(1)
        await sleep(10)

    drive = begin(body)
    drive.at += 500 * SECOND
    drive.complete("double")
    assert drive.execution.next_timer() == drive.at + 10 * SECOND


def test_now_is_the_time_of_the_last_entry_delivered(begin):
    @workflow
    async def body() -> None:
        note(now())
        await double(1)
        note(now())
        await sleep(100)
        note(now())

    drive = begin(body).finish().check()
    assert drive.notes == [
        datetime.fromtimestamp(START / SECOND, UTC),
        datetime.fromtimestamp((START + 1000) / SECOND, UTC),
        datetime.fromtimestamp((START + 1000) / SECOND + 100, UTC),
    ]


def test_now_stands_still_between_two_entries(begin):
    @workflow
    async def body() -> bool:
        before = now()
        for _ in range(10):
            await asyncio.sleep(0)
        return now() == before

    assert begin(body).result is True


def test_the_event_loop_of_a_body_shows_the_time_of_the_run(begin):
    @workflow
    async def body() -> float:
        before = asyncio.get_running_loop().time()
        await sleep(100)
        return asyncio.get_running_loop().time() - before

    assert begin(body).finish().check().result == pytest.approx(100)


def test_time_never_goes_back_in_a_run(begin):
    @workflow
    async def body() -> bool:
        before = now()
        await double(1)
        return now() >= before

    drive = begin(body)
    drive.at = START - 500 * SECOND
    drive.complete("double")
    assert drive.check().result is True


def test_a_late_timer_gives_the_body_the_time_of_its_firing(begin):
    @workflow
    async def body() -> float:
        before = now()
        await sleep(10)
        return (now() - before).total_seconds()

    drive = begin(body)
    drive.at += 1_000 * SECOND
    drive.fire()
    assert drive.check().result >= 1_000


def test_a_year_of_sleeps_is_a_year_of_the_runs_time(begin):
    @workflow
    async def body() -> float:
        began = now()
        for _ in range(365):
            await holdfast.sleep("1d")
        return (now() - began).total_seconds()

    assert begin(body).finish().result == 365 * 86_400


def test_a_timer_that_fired_and_a_result_in_one_turn_are_taken_in_order(begin):
    @workflow
    async def body() -> str:
        try:
            async with asyncio.timeout(5):
                await double(1)
        except TimeoutError:
            return "late"
        return "in time"

    first = begin(body)
    result, timer = first.completed("double"), first.fired()
    first.take(result, timer)
    second = begin(body)
    timer, result = second.fired(), second.completed("double")
    second.take(timer, result)
    assert [first.result, second.result] == ["in time", "late"]
