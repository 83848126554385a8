"""`def` bodies, and `def` steps in async bodies: a call blocks the task that makes it, and nothing else."""

from __future__ import annotations

import asyncio
import threading

import pytest

import holdfast
from holdfast import WaitTimeout, blocking, step, workflow
from tests.engine.drive import note
from tests.engine.samples import Declined, double, echo, refuse, triple


@step
def refuse_slowly(card: str) -> str:
    raise Declined(card, cents=1)


# -- def bodies --------------------------------------------------------------------------------------------------------


def test_a_def_body_calls_def_steps(begin):
    @workflow
    def body(n: int) -> int:
        n = triple(n)
        note(n)
        return triple(n)

    assert begin(body, 1).finish().check().result == 9


def test_a_def_body_calls_async_steps_and_gets_their_value(begin):
    @workflow
    def body(n: int) -> int:
        n = double(n)  # type: ignore[assignment]
        note(n)
        return n

    assert begin(body, 2).finish().check().result == 4


def test_a_def_body_gets_a_steps_exception(begin):
    @workflow
    def body() -> str:
        try:
            return refuse_slowly("visa")
        except Declined as error:
            return error.card

    drive = begin(body)
    drive.fail("refuse_slowly", Declined("visa", cents=1))
    assert drive.check().result == "visa"


def test_a_def_body_that_fails_fails_the_run(begin):
    @workflow
    def body() -> None:
        raise Declined("visa", cents=2)

    assert isinstance(begin(body).error, Declined)


def test_a_pending_in_a_def_body_gives_its_result(begin):
    @workflow
    def body() -> int:
        one, two = triple.start(1), double.start(2)
        return one.result() + two.result()

    drive = begin(body)
    assert drive.begun == ["triple", "double"]
    assert drive.finish().check().result == 7


def test_a_pending_in_a_def_body_raises_its_failure(begin):
    @workflow
    def body() -> str:
        pending = refuse.start("visa")
        try:
            pending.result()
        except Declined as error:
            return error.card
        return ""

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    assert drive.check().result == "visa"


def test_a_pending_gives_its_result_again_and_again(begin):
    @workflow
    def body() -> list[int]:
        pending = triple.start(1)
        return [pending.result(), pending.result()]

    assert begin(body).finish().check().result == [3, 3]


def test_gather_in_a_def_body_gives_results_in_the_order_given(begin):
    @workflow
    def body() -> list[int]:
        return blocking.gather(*(triple.start(n) for n in range(3)))

    drive = begin(body)
    for key in ("triple:2", "triple", "triple:1"):
        drive.complete(key)
    assert drive.check().result == [0, 3, 6]


def test_gather_of_nothing_is_nothing(begin):
    @workflow
    def body() -> list[int]:
        return blocking.gather()

    assert begin(body).result == []


def test_gather_in_a_def_body_raises_the_first_failure(begin):
    @workflow
    def body() -> str:
        try:
            blocking.gather(echo.start(1), refuse.start("visa"))
        except Declined as error:
            return error.card
        return ""

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    assert drive.check().result == "visa"


def test_wait_in_a_def_body_tells_done_from_not_done(begin):
    @workflow
    def body() -> list[list[str]]:
        pendings = [triple.start(n) for n in range(3)]
        done, rest = blocking.wait(pendings, return_when=asyncio.FIRST_COMPLETED)
        note([one.key for one in rest])
        return [[one.key for one in done], [one.key for one in rest]]

    drive = begin(body)
    drive.complete("triple:1")
    assert drive.check().result == [["triple:1"], ["triple", "triple:2"]]


def test_wait_in_a_def_body_ends_at_its_timeout(begin):
    @workflow
    def body() -> list[int]:
        pendings = [triple.start(n) for n in range(2)]
        done, rest = blocking.wait(pendings, timeout="5s")
        return [len(done), len(rest)]

    drive = begin(body)
    drive.complete("triple")
    drive.fire()
    assert drive.check().result == [1, 1]


def test_wait_in_a_def_body_cancels_nothing(begin):
    @workflow
    def body() -> list[int]:
        pendings = [triple.start(n) for n in range(2)]
        blocking.wait(pendings, timeout="5s")
        return [one.result() for one in pendings]

    drive = begin(body)
    drive.fire()
    assert drive.withdrawn == []
    assert drive.finish().check().result == [0, 3]


def test_as_completed_in_a_def_body_gives_them_as_they_end(begin):
    @workflow
    def body() -> list[int]:
        return [one.result() for one in blocking.as_completed([triple.start(n) for n in range(3)])]

    drive = begin(body)
    for key in ("triple:1", "triple:2", "triple"):
        drive.complete(key)
    assert drive.check().result == [3, 6, 0]


def test_as_completed_in_a_def_body_raises_when_its_time_is_over(begin):
    @workflow
    def body() -> list[int]:
        found = []
        try:
            for one in blocking.as_completed([triple.start(n) for n in range(2)], timeout=5):
                found.append(one.result())
        except WaitTimeout:
            found.append(-1)
        return found

    drive = begin(body)
    drive.complete("triple:1")
    drive.fire()
    assert drive.check().result == [3, -1]


def test_call_in_a_def_body_is_an_inline_step(begin):
    @workflow
    def body() -> int:
        return blocking.call("parse", int, "12") + holdfast.call("parse", int, "30")  # type: ignore[operator]

    drive = begin(body).finish().check()
    assert drive.asked == ["parse", "parse:1"]
    assert drive.result == 42


def test_call_in_an_async_body_is_awaited_whatever_the_colour(begin):
    async def add(a: int, b: int) -> int:
        return a + b

    @workflow
    async def body() -> list[int]:
        return [await holdfast.call("parse", int, "12"), await holdfast.call("add", add, 1, 2)]

    assert begin(body).finish().check().result == [12, 3]


def test_a_cancel_is_raised_out_of_a_blocking_call(begin):
    @workflow
    def body() -> str:
        try:
            triple(1)
        except asyncio.CancelledError:
            note("cancelled")
            raise
        return "not cancelled"

    drive = begin(body)
    drive.cancel()
    assert drive.check().status == "cancelled"
    assert drive.notes == ["cancelled"]


@pytest.mark.parametrize("wait", ["sleep", "result", "gather", "wait", "as_completed", "async_step"])
def test_a_cancel_is_raised_out_of_every_blocking_wait(begin, wait):
    @workflow
    def body(how: str) -> None:
        if how == "sleep":
            blocking.sleep("1h")
        elif how == "result":
            triple.start(1).result()
        elif how == "gather":
            blocking.gather(triple.start(1), triple.start(2))
        elif how == "wait":
            blocking.wait([triple.start(1)])
        elif how == "as_completed":
            list(blocking.as_completed([triple.start(1)]))
        else:
            double(1)

    drive = begin(body, wait)
    drive.cancel()
    assert drive.check().status == "cancelled"


def test_a_cancel_in_a_def_body_lets_finally_call_steps(begin):
    @workflow
    def body() -> None:
        try:
            triple(1)
        finally:
            note(triple(2))

    drive = begin(body)
    drive.cancel()
    assert drive.open == ["triple:1"]
    drive.finish().check()
    assert (drive.status, drive.notes) == ("cancelled", [6])


def test_no_thread_is_held_while_def_bodies_wait(begin):
    @workflow
    def body() -> int:
        return triple(1)

    before = threading.active_count()
    drives = [begin(body, run_id=f"run-{n}") for n in range(50)]
    assert threading.active_count() == before
    assert all(drive.finish().result == 3 for drive in drives)


def test_a_def_body_runs_deep_in_plain_functions(begin):
    def down(n: int) -> int:
        return triple(1) if n == 0 else down(n - 1)

    @workflow
    def body() -> int:
        return down(200)

    assert begin(body).finish().check().result == 3


def test_a_def_body_may_call_steps_in_a_comprehension_and_a_generator(begin):
    @workflow
    def body() -> int:
        return sum(triple(n) for n in [triple(m) for m in range(3)])

    assert begin(body).finish().check().result == 27


def test_a_def_body_may_sort_by_a_step(begin):
    """A step called from C code that calls back."""

    @workflow
    def body() -> list[int]:
        return sorted([1, 3, 2], key=lambda n: -triple(n))

    assert begin(body).finish().check().result == [3, 2, 1]


# -- def steps in async bodies -----------------------------------------------------------------------------------------


def test_a_def_step_in_an_async_body_returns_its_value(begin):
    @workflow
    async def body() -> int:
        return triple(await double(1))

    assert begin(body).finish().check().result == 6


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
