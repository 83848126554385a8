"""Shields, and the cancels that they keep back (semantics §7.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from holdfast import continue_as_new, shield, workflow
from tests.engine.drive import note
from tests.engine.samples import clean_up, double, echo, triple


async def from_shield_to_shield() -> None:
    for n in range(3):
        with shield():
            await double(n)


def test_a_cancel_waits_while_any_task_is_shielded(begin):
    @workflow
    async def body() -> None:
        with shield():
            await double(1)
            note("whole")
        await double(2)

    drive = begin(body)
    drive.cancel()
    assert drive.ended is None
    drive.complete("double")
    assert drive.notes == ["whole"]
    assert drive.check().status == "cancelled"


def test_a_cancel_that_a_shield_has_kept_back_is_raised_by_the_next_call_that_blocks(begin):
    @workflow
    def body() -> None:
        with shield():
            triple(1)
        try:
            triple(2)
        except asyncio.CancelledError:
            note("cancelled")
            triple(3)
            raise

    drive = begin(body)
    drive.cancel()
    drive.complete("triple")
    assert (drive.begun, drive.notes) == (["triple:2"], ["cancelled"])
    drive.complete("triple:2")
    assert drive.check().status == "cancelled"


def test_a_cancel_that_a_shield_has_kept_back_interrupts_a_def_step_of_an_async_body(begin):
    @workflow
    async def body() -> None:
        async def careful() -> None:
            with shield():
                await double(1)
            triple(1)

        await asyncio.create_task(careful())

    drive = begin(body)
    drive.cancel()
    drive.complete("double")
    assert drive.begun == []
    assert drive.check().status == "cancelled"


@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_cancel_comes_between_two_shields_and_not_inside_the_second(begin, is_awaited):
    @workflow
    async def body() -> None:
        for n in range(3):
            with shield():
                note(n)
                if is_awaited:
                    await double(n)
                else:
                    triple(n)

    drive = begin(body)
    drive.cancel()
    drive.complete("double" if is_awaited else "triple")
    assert len(drive.asked) == 1
    assert drive.notes == [0]
    assert drive.check().status == "cancelled"


def test_a_task_that_goes_from_shield_to_shield_does_not_keep_a_cancel_from_the_body(begin):
    @workflow
    async def body() -> None:
        task = asyncio.create_task(from_shield_to_shield())
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            note("cancelled")
            await task
            raise

    drive = begin(body)
    drive.cancel()
    drive.complete("double")
    assert drive.notes == ["cancelled"]
    assert drive.finish().check().status == "cancelled"
    assert drive.asked == ["double", "double:1", "double:2"]


@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_cancel_that_comes_between_two_shields_comes_once(begin, is_awaited):
    @workflow
    async def body() -> None:
        try:
            for n in range(2):
                with shield():
                    await double(n)
        finally:
            if is_awaited:
                await clean_up()
            else:
                triple(1)
            note("cleaned up")

    drive = begin(body)
    drive.cancel()
    assert drive.finish().notes == ["cleaned up"]
    assert drive.check().status == "cancelled"


def test_a_task_that_goes_from_shield_to_shield_does_not_cancel_the_body_twice(begin):
    @workflow
    async def body() -> None:
        task = asyncio.create_task(from_shield_to_shield())
        try:
            await asyncio.sleep(60)
        finally:
            await task
            await clean_up()
            note("cleaned up")

    drive = begin(body)
    drive.cancel()
    assert drive.finish().notes == ["cleaned up"]
    assert drive.check().status == "cancelled"


@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_cancel_for_a_task_that_the_body_awaits_comes_between_two_shields_and_not_inside(begin, is_awaited):
    @workflow
    async def body() -> None:
        async def transfers() -> None:
            for n in range(3):
                with shield():
                    if is_awaited:
                        await echo(n)
                    else:
                        triple(n)
                    await double(n)
                    note(n)

        await asyncio.gather(transfers())

    drive = begin(body)
    drive.cancel()
    drive.finish()
    assert drive.notes == [0]
    assert len(drive.asked) == 2
    assert drive.check().status == "cancelled"


def test_a_shield_object_shared_by_several_runs_keeps_the_cancel_of_each_back(begin):
    whole = shield()

    @workflow
    async def body() -> None:
        with whole:
            await double(1)
        await double(2)

    one, other = begin(body), begin(body)
    one.complete("double")
    other.complete("double")
    for drive in (one, other):
        drive.cancel()
        assert drive.ended is not None
        assert drive.check().status == "cancelled"


def test_a_shield_of_another_run_that_is_left_in_this_one_opens_no_shield_of_this_one(begin):
    kept: list[Iterator[None]] = []

    def shielded() -> Iterator[None]:
        with shield():
            yield

    @workflow
    async def first() -> None:
        kept.append(shielded())
        next(kept[0])
        await double(1)

    @workflow
    async def second() -> None:
        with shield():
            kept.clear()
            await double(1)
        await double(2)

    begin(first)
    drive = begin(second, run_id="run-2")
    drive.cancel()
    assert drive.ended is None
    drive.complete("double")
    assert drive.status == "cancelled"


def test_a_cancel_that_a_shield_has_kept_back_until_the_end_ends_the_run(begin):
    @workflow
    def body() -> int:
        with shield():
            return triple(1)

    drive = begin(body)
    drive.cancel()
    drive.complete("triple")
    assert drive.check().status == "cancelled"


def test_the_end_of_a_nested_shield_lets_no_cancel_into_the_outer_shield(begin):
    @workflow
    async def body() -> None:
        with shield():
            note(await double(1))
            with shield():
                note(await double(2))
            note(await double(3))
        note(await double(4))

    drive = begin(body)
    drive.cancel()
    for key in ("double", "double:1", "double:2"):
        drive.complete(key)
    assert drive.notes == [2, 4, 6]
    assert drive.check().status == "cancelled"


def test_a_cancel_that_a_shield_has_kept_back_comes_before_continue_as_new(begin):
    @workflow
    async def body() -> None:
        with shield():
            await double(1)
            continue_as_new()

    drive = begin(body)
    drive.cancel()
    drive.complete("double")
    assert drive.check().status == "cancelled"
