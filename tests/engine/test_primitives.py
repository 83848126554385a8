"""P5: asyncio's own primitives in a body (groups, queues, locks, sets of tasks) do the same on every replay."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from holdfast import current_run, workflow
from holdfast.errors import MisplacedCall
from tests.engine.drive import note
from tests.engine.samples import Declined, double, echo, refuse, triple


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


def test_as_completed_over_bare_coroutines_is_refused(begin):
    """as_completed would begin the coroutines in the order of their addresses, and swap results on replay."""

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


def test_steps_of_a_task_in_an_empty_context_are_steps_of_the_run(begin):
    @workflow
    async def body() -> list[int]:
        async def branch() -> list[int]:
            note(current_run().id)
            return [await double(1), triple(2)]

        async with asyncio.TaskGroup() as group:
            task = group.create_task(branch(), context=contextvars.Context())
        return task.result()

    drive = begin(body)
    assert drive.open == ["double"]
    drive.complete("double", 20)
    assert drive.open == ["triple"]
    drive.complete("triple", 60)
    assert drive.check().result == [20, 60]
