"""`def` steps in async bodies: a call blocks the task that makes it, and nothing else."""

from __future__ import annotations

import asyncio
import contextvars

from holdfast import blocking, workflow
from tests.engine.drive import note
from tests.engine.samples import Declined, double, refuse, triple

place = contextvars.ContextVar("place", default="nowhere")


def test_a_def_step_in_an_async_body_returns_its_value(begin):
    @workflow
    async def body() -> int:
        return triple(await double(1))

    assert begin(body).finish().check().result == 6


def test_the_result_of_a_step_under_way_is_awaited_in_an_async_body(begin):
    @workflow
    async def body() -> str:
        pending = double.start(1)
        try:
            pending.result()
        except asyncio.InvalidStateError as error:
            return f"{error}: {await pending}, {pending.result()}"

    assert begin(body).finish().check().result.startswith("'double' has not ended; await it")


def test_a_def_step_in_an_async_body_does_not_hold_up_siblings(begin):
    @workflow
    async def body() -> list[str]:
        order = []

        async def one() -> None:
            triple(1)
            order.append("def")

        async def other() -> None:
            await double(1)
            order.append("async")

        await asyncio.gather(one(), other())
        return order

    drive = begin(body)
    assert drive.open == ["triple", "double"]
    drive.complete("double")
    drive.complete("triple")
    assert drive.check().result == ["async", "def"]


def test_two_tasks_may_be_in_def_steps_at_once_and_end_in_any_order(begin):
    @workflow
    async def body() -> list[int]:
        async def one(n: int) -> int:
            first = triple(n)
            note(n, first)
            second = triple(first)
            note(n, second)
            return second

        return list(await asyncio.gather(one(1), one(10), one(100)))

    drive = begin(body)
    assert drive.open == ["triple", "triple:1", "triple:2"]
    for key in ("triple:1", "triple", "triple:2", "triple:4", "triple:3", "triple:5"):
        drive.complete(key)
    assert drive.check().result == [9, 90, 900]


def test_timers_go_on_while_a_def_step_is_in_flight(begin):
    @workflow
    async def body() -> list[str]:
        order = []

        async def ticks() -> None:
            for n in range(2):
                await asyncio.sleep(1)
                order.append(f"tick {n}")

        task = asyncio.create_task(ticks())
        await asyncio.sleep(0)
        triple(1)
        order.append("step")
        await task
        return order

    drive = begin(body)
    drive.fire()
    drive.fire()
    drive.complete("triple")
    assert drive.check().result == ["tick 0", "tick 1", "step"]


def test_a_timeout_is_raised_out_of_a_def_step(begin):
    @workflow
    async def body() -> str:
        try:
            async with asyncio.timeout(5):
                triple(1)
        except TimeoutError:
            return f"late {triple(2)}"
        return "in time"

    drive = begin(body)
    drive.fire()
    assert drive.withdrawn == ["triple"]
    drive.complete("triple:1")
    assert drive.check().result == "late 6"


def test_a_cancel_is_raised_out_of_a_def_step(begin):
    @workflow
    async def body() -> None:
        try:
            triple(1)
        finally:
            note("left")

    drive = begin(body)
    drive.cancel()
    assert drive.check().status == "cancelled"
    assert drive.notes == ["left"]


def test_a_task_in_a_def_step_can_be_cancelled_by_its_sibling(begin):
    @workflow
    async def body() -> str:
        async def one() -> int:
            return triple(1)

        task = asyncio.create_task(one())
        await double(1)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return "ran"

    drive = begin(body)
    drive.complete("double")
    assert drive.withdrawn == ["triple"]
    assert drive.check().result == "cancelled"


def test_current_task_is_right_after_a_def_step(begin):
    @workflow
    async def body() -> list[bool]:
        async def one(n: int) -> bool:
            me = asyncio.current_task()
            triple(n)
            after = asyncio.current_task() is me
            await double(n)
            return after and asyncio.current_task() is me

        return list(await asyncio.gather(one(1), one(2), one(3)))

    drive = begin(body)
    for key in ("triple:1", "triple:2", "triple"):
        drive.complete(key)
    assert drive.finish().check().result == [True, True, True]


def test_all_tasks_of_a_body_are_its_own(begin):
    @workflow
    async def body() -> int:
        task = asyncio.create_task(double(1))
        count = len(asyncio.all_tasks())
        await task
        return count

    assert begin(body).finish().check().result == 2


def test_blocking_functions_in_an_async_body_block_the_calling_task_only(begin):
    @workflow
    async def body() -> list[str]:
        order = []

        async def one() -> None:
            blocking.sleep(5)
            order.append("slept")

        async def other() -> None:
            await double(1)
            order.append("stepped")

        await asyncio.gather(one(), other())
        return order

    drive = begin(body)
    drive.complete("double")
    drive.fire()
    assert drive.check().result == ["stepped", "slept"]


def test_a_def_step_under_a_task_group_failure_is_cancelled(begin):
    @workflow
    async def body() -> str:
        async def one() -> None:
            try:
                triple(1)
            finally:
                note("left")

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(one())
                group.create_task(refuse("visa"))
        except* Declined:
            pass
        return "went on"

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    assert drive.check().result == "went on"
    assert drive.notes == ["left"]


def test_a_def_step_inside_an_async_generator_blocks_its_task_only(begin):
    @workflow
    async def body() -> int:
        async def items():
            for n in range(3):
                yield triple(n)

        return sum([n async for n in items()])

    assert begin(body).finish().check().result == 9


def test_a_def_step_does_not_hold_up_siblings_that_share_its_context(begin):
    @workflow
    async def body() -> list[str]:
        order = []
        shared = contextvars.copy_context()

        async def one() -> None:
            triple(1)
            order.append(f"def, {place.get()}")

        async def other() -> None:
            token = place.set("here")
            await double(1)
            order.append(f"async, {place.get()}")
            place.reset(token)
            place.set("there")
            triple(2)
            order.append("second def")

        await asyncio.gather(*(asyncio.create_task(task(), context=shared) for task in (one, other)))
        return [*order, place.get(), shared[place]]

    drive = begin(body)
    drive.complete("double")
    drive.complete("triple:1")
    drive.complete("triple")
    assert drive.check().result == ["async, here", "second def", "def, there", "nowhere", "there"]


def test_the_reason_of_a_cancel_comes_out_of_a_def_step(begin):
    """Libraries with cancel scopes tell by the reason whose cancel it is, and cancel again until it is raised."""

    @workflow
    async def body() -> list[str]:
        reasons = []

        async def one() -> None:
            for _ in range(2):
                try:
                    triple(1)
                except asyncio.CancelledError as cancelled:
                    reasons.append(str(cancelled))

        task = asyncio.create_task(one())
        await double(1)
        task.cancel("first")
        task.cancel("second")
        await double(2)
        task.cancel("third")
        await task
        return reasons

    drive = begin(body)
    drive.complete("double")
    drive.complete("double:1")
    assert drive.check().result == ["first", "third"]


def test_a_task_knows_that_it_was_cancelled_in_a_def_step(begin):
    @workflow
    async def body() -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            triple(1)
        finally:
            note(task.cancelling())

    drive = begin(body)
    drive.cancel()
    assert (drive.check().status, drive.notes) == ("cancelled", [1])


def test_a_cancel_between_a_result_and_the_return_of_its_call_is_raised_out_of_the_call(begin):
    @workflow
    def body() -> str:
        task = asyncio.current_task()
        assert task is not None
        under_way = triple.start(1)
        under_way.add_done_callback(lambda _: task.cancel())
        try:
            return str(under_way.result())
        except asyncio.CancelledError:
            return "cancelled"

    drive = begin(body)
    drive.complete("triple")
    assert drive.check().result == "cancelled"
