"""P5: results come back in journal order, so whatever waits for several things takes the same branch on replay."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import sleep, workflow
from holdfast.errors import MisplacedCall
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


def test_the_same_step_is_numbered_by_its_use(begin):
    @workflow
    async def body() -> list[int]:
        return [await double(1), await double(1), await double(1)]

    assert begin(body).finish().check().asked == ["double", "double:1", "double:2"]


def test_equal_arguments_are_two_executions(begin):
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


@workflow
async def race() -> list[object]:
    tasks = [asyncio.create_task(echo(n), name=str(n)) for n in range(3)]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for one in rest:
        one.cancel()
    note(sorted(one.get_name() for one in done))
    return [one.result() for one in done]


def test_the_first_of_a_race_is_one_even_if_two_results_came_in_one_turn(begin):
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
    """The winner's result cancels the loser, whose result came in the same turn behind it."""
    drive = begin(race)
    drive.take(drive.completed("echo:1"), drive.completed("echo:2"))
    assert [getattr(entry, "key", None) for entry in drive.entries[-2:]] == ["echo:1", None]


def test_what_was_asked_and_withdrawn_in_one_turn_is_not_begun(begin):
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


def test_a_withdrawn_ask_of_the_same_turn_replays(begin):
    @workflow
    async def body() -> object:
        await double(1)
        task = asyncio.create_task(echo(1))
        await asyncio.sleep(0)
        task.cancel()
        return await double(2)

    assert begin(body).finish().check().result == 4


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


def test_sets_of_tasks_iterate_alike_on_replay(begin):
    @workflow
    async def body() -> list[str]:
        tasks = {asyncio.create_task(double(n), name=f"t{n}") for n in range(20)}
        note([one.get_name() for one in tasks])
        done, _ = await asyncio.wait(tasks)
        names = [one.get_name() for one in done]
        note(names)
        return names

    begin(body).finish().check()


def test_sets_of_pendings_iterate_alike_on_replay(begin):
    @workflow
    async def body() -> list[int]:
        pendings = {double.start(n) for n in range(20)}
        note([one.key for one in pendings])
        done, _ = await asyncio.wait(pendings)
        return [one.result() for one in done]

    begin(body).finish().check()


def test_a_task_group_waits_for_all_its_tasks(begin):
    @workflow
    async def body() -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(double(n)) for n in range(3)]
        return [task.result() for task in tasks]

    drive = begin(body)
    for key in ("double:2", "double", "double:1"):
        drive.complete(key)
    assert drive.check().result == [0, 2, 4]


def test_a_task_group_cancels_the_siblings_of_a_failure(begin):
    @workflow
    async def body() -> list[str]:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(echo("a"))
                group.create_task(refuse("visa"))
                group.create_task(echo("c"))
        except* Declined as found:
            note([error.card for error in found.exceptions])
        return ["went on"]

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    assert drive.withdrawn == ["echo", "echo:1"]
    assert drive.check().result == ["went on"]


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


def test_as_completed_over_bare_coroutines_is_refused(begin):
    """It would begin them in the order of their addresses, and swap results on replay."""

    @workflow
    async def body() -> list[int]:
        return [await one for one in asyncio.as_completed([double(n) for n in range(8)])]

    with pytest.raises(MisplacedCall, match="as_completed"):
        begin(body)


def test_as_completed_over_tasks_gives_them_as_they_end(begin):
    @workflow
    async def body() -> list[int]:
        tasks = [asyncio.create_task(double(n)) for n in range(3)]
        return [await one for one in asyncio.as_completed(tasks)]

    drive = begin(body)
    for key in ("double:1", "double:2", "double"):
        drive.complete(key)
    assert drive.check().result == [2, 4, 0]


def test_queues_events_and_locks_work_between_tasks(begin):
    @workflow
    async def body() -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        lock, full = asyncio.Lock(), asyncio.Event()

        async def produce(n: int) -> None:
            async with lock:
                await queue.put(await double(n))

        found: list[int] = []

        async def consume() -> None:
            while len(found) < 3:
                found.append(await queue.get())
                note(list(found))
            full.set()

        async with asyncio.TaskGroup() as group:
            for n in range(3):
                group.create_task(produce(n))
            group.create_task(consume())
            await full.wait()
        return found

    assert begin(body).finish().check().result == [0, 2, 4]


def test_a_semaphore_bounds_the_steps_in_flight(begin):
    @workflow
    async def body() -> int:
        gate = asyncio.Semaphore(2)

        async def one(n: int) -> int:
            async with gate:
                return await double(n)

        return sum(await asyncio.gather(*(one(n) for n in range(5))))

    drive = begin(body)
    assert drive.open == ["double", "double:1"]
    assert drive.finish().check().result == 20


def test_a_condition_wakes_its_waiters(begin):
    @workflow
    async def body() -> int:
        condition, ready = asyncio.Condition(), []

        async def waiter() -> int:
            async with condition:
                await condition.wait_for(lambda: ready)
                return 1

        waiting = [asyncio.create_task(waiter()) for _ in range(3)]
        ready.append(await double(1))
        async with condition:
            condition.notify_all()
        return sum(await asyncio.gather(*waiting))

    assert begin(body).finish().check().result == 3


def test_shielded_work_goes_on_after_its_waiter_was_cancelled(begin):
    @workflow
    async def body() -> int:
        inner = asyncio.ensure_future(double(1))
        try:
            async with asyncio.timeout(1):
                await asyncio.shield(inner)
        except TimeoutError:
            note("late")
        return await inner

    drive = begin(body)
    drive.fire()
    drive.complete("double")
    assert drive.check().result == 2


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
