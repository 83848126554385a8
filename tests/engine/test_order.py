"""P5: results come back in journal order, each to the call that asked for it, however they were grouped into turns."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import workflow
from tests.engine.drive import note
from tests.engine.samples import Declined, double, echo, refuse, triple


@workflow
async def sequence(n: int) -> int:
    n = await double(n)
    note(n)
    n = triple(n)
    note(n)
    return await double(n)


def test_steps_in_sequence_replay_from_every_point(begin):
    assert begin(sequence, 1).finish().check().result == 12


def test_keys_of_a_step_that_is_used_again_are_numbered(begin):
    @workflow
    async def body() -> list[int]:
        return [await double(1), await double(1), await double(1)]

    assert begin(body).finish().check().asked == ["double", "double:1", "double:2"]


def test_two_calls_with_equal_arguments_are_two_executions(begin):
    @workflow
    async def body() -> None:
        await asyncio.gather(double(1), double(1))

    assert begin(body).begun == ["double", "double:1"]


def test_options_change_the_name_in_the_journal(begin):
    @workflow
    async def body() -> int:
        return await double.options(name="twice")(1)

    assert begin(body).finish().check().asked == ["twice"]


def test_gather_gives_results_in_the_order_asked_whatever_order_they_came_in(begin):
    @workflow
    async def body() -> list[int]:
        return list(await asyncio.gather(double(1), double(2), double(3)))

    drive = begin(body)
    for key in ("double:2", "double", "double:1"):
        drive.complete(key)
    assert drive.check().result == [2, 4, 6]


def test_gather_raises_the_failure_that_came_first(begin):
    @workflow
    async def body() -> str:
        try:
            await asyncio.gather(echo("a"), echo("b"))
        except ValueError as error:
            return str(error)
        return "nothing"

    drive = begin(body)
    drive.fail("echo:1", ValueError("b"))
    assert drive.check().result == "b"


def test_gather_with_return_exceptions_waits_for_all(begin):
    @workflow
    async def body() -> list[str]:
        found = await asyncio.gather(echo("a"), refuse("visa"), echo("c"), return_exceptions=True)
        return [type(one).__name__ for one in found]

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    drive.complete("echo:1")
    drive.complete("echo")
    assert drive.check().result == ["str", "Declined", "str"]


def test_same_named_steps_in_concurrent_branches_get_their_own_results(begin):
    @workflow
    async def body() -> list[int]:
        async def branch(n: int) -> int:
            first = await double(n)
            note(n, first)
            second = await double(first)
            note(n, second)
            return second

        return list(await asyncio.gather(branch(1), branch(10), branch(100)))

    drive = begin(body)
    for key in ("double:2", "double", "double:3", "double:1", "double:4", "double:5"):
        drive.complete(key)
    assert drive.check().result == [4, 40, 400]


def test_pendings_are_begun_in_the_turn_that_starts_them(begin):
    @workflow
    async def body() -> int:
        first, second = double.start(1), triple.start(2)
        return await first + await second

    drive = begin(body)
    assert drive.begun == ["double", "triple"]
    assert drive.finish().check().result == 8


def test_an_async_step_asks_when_it_is_first_awaited(begin):
    @workflow
    async def body() -> list[int]:
        later = double(1)
        now = await double(2)
        return [await later, now]

    drive = begin(body)
    drive.complete("double", 22)
    drive.complete("double:1", 11)
    assert drive.check().result == [11, 22]


def test_a_coroutine_made_in_one_task_may_be_awaited_in_another(begin):
    @workflow
    async def body() -> int:
        return await asyncio.create_task(hand_over(double(4)))

    async def hand_over(work):
        return await work

    assert begin(body).finish().check().result == 8


@pytest.mark.parametrize("sizes", [(3, 3), (1, 2, 3), (6,), (1, 1, 1, 1, 1, 1)])
def test_how_inputs_are_grouped_into_turns_makes_no_difference(begin, sizes):
    @workflow
    async def body() -> list[object]:
        seen: list[object] = []
        tasks = {asyncio.create_task(echo(n)) for n in range(6)}
        while tasks:
            done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            seen.append([one.result() for one in done])
            note(list(seen))
        return seen

    drive = begin(body)
    keys = iter(["echo:5", "echo:1", "echo", "echo:3", "echo:2", "echo:4"])
    for size in sizes:
        drive.take(*[drive.completed(next(keys)) for _ in range(size)])
    assert drive.check().result == [[5], [1], [0], [3], [2], [4]]


def test_a_failure_that_the_body_catches_is_an_entry_and_is_not_executed_again(begin):
    @workflow
    async def body() -> str:
        try:
            return await refuse("visa")
        except Declined:
            return str(await double(1))

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    assert drive.open == ["double"]
    assert list(drive.replay().commands) == ["double"]


def test_an_attempt_to_be_retried_is_not_seen_by_the_body(begin):
    drive = begin(sequence, 1)
    drive.retry_step("double", ValueError("not yet"))
    assert drive.notes == []
    assert drive.finish().check().result == 12


def test_the_next_attempt_is_counted_on_replay(begin):
    drive = begin(sequence, 1)
    drive.retry_step("double", ValueError("not yet"))
    drive.retry_step("double", ValueError("not yet"), attempt=2)
    assert drive.replay().commands["double"].attempt == 3
