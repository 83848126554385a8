"""P9: every task, generator, context manager and callback of a body is put away with it, and none of them acts."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest

import holdfast
from holdfast import current_run, workflow
from tests.engine.alerts import ALERTS, put_away
from tests.engine.samples import clean_up, double, triple


async def two_items():
    """A generator that notes in which run it was closed."""
    try:
        yield 1
        yield 2
    finally:
        ALERTS.append(current_run().id)


def test_every_task_of_a_body_is_put_away(begin):
    @workflow
    async def body() -> None:
        async def branch(n: int) -> None:
            try:
                await double(n)
            finally:
                ALERTS.append(f"closed {n}")

        await asyncio.gather(branch(1), branch(2))

    put_away(begin(body))
    assert sorted(ALERTS) == ["closed 1", "closed 2"]


def test_a_generator_is_closed_with_its_body(begin):
    @workflow
    def body() -> None:
        def items():
            try:
                while True:
                    yield triple(1)
            finally:
                ALERTS.append(current_run().id)

        for _ in items():
            pass

    put_away(begin(body))
    assert ALERTS == ["run-1"]


def test_an_async_generator_is_closed_with_its_body(begin):
    @workflow
    async def body() -> None:
        async def items():
            try:
                while True:
                    yield await double(1)
            finally:
                ALERTS.append(current_run().id)

        async for _ in two_items():
            pass

    put_away(begin(body))
    assert ALERTS == ["run-1"]


def test_a_generator_between_two_items_is_closed_in_its_own_run(begin):
    """If it were collected later, its `finally` would write into whichever run is advancing then."""

    @workflow
    async def body() -> None:
        def items():
            try:
                yield 1
                yield 2
            finally:
                ALERTS.append(current_run().id)

        for _ in items():
            await double(1)

    put_away(begin(body))
    assert ALERTS == ["run-1"]


def test_an_abandoned_async_generator_is_closed_while_its_run_is_alive(begin):
    @workflow
    async def body() -> int:
        async for _ in two_items():
            break
        return await double(1)

    drive = begin(body).finish()
    assert drive.result == 2
    assert ALERTS == ["run-1"]


def test_an_async_context_manager_can_not_ask_for_a_step_while_its_body_is_put_away(begin):
    @contextlib.asynccontextmanager
    async def reserved():
        try:
            yield
        finally:
            await clean_up()
            ALERTS.append("cleaned up")

    @workflow
    async def body() -> None:
        async with reserved():
            await double(1)

    drive = begin(body)
    put_away(drive)
    assert ALERTS == []
    assert drive.asked == ["double"]


def test_a_task_group_is_put_away_with_its_children(begin):
    @workflow
    async def body() -> None:
        async def child(n: int) -> None:
            try:
                await double(n)
            finally:
                ALERTS.append(f"closed {n}")

        async with asyncio.TaskGroup() as group:
            group.create_task(child(1))
            group.create_task(child(2))
        ALERTS.append("went on")

    put_away(begin(body))
    assert sorted(ALERTS) == ["closed 1", "closed 2"]


def test_every_task_of_a_crowd_is_put_away_and_none_is_left_to_the_collector(begin):
    @workflow
    async def body() -> None:
        async def one(n: int) -> None:
            try:
                await double(n)
            except BaseException as error:
                ALERTS.append(type(error).__name__)
                raise

        tasks = [asyncio.create_task(one(n)) for n in range(50)]
        await asyncio.wait(tasks)

    put_away(begin(body))
    assert ALERTS == ["Suspended"] * 50


def test_a_timeout_block_does_not_turn_the_suspension_into_a_timeout(begin):
    @workflow
    async def body() -> None:
        try:
            async with asyncio.timeout(10):
                await double(1)
        except TimeoutError:
            ALERTS.append("timeout")

    put_away(begin(body))
    assert ALERTS == []


def test_a_done_callback_can_not_ask_for_a_step_while_its_body_is_put_away(begin):
    @workflow
    async def body() -> None:
        def ask(_: object) -> None:
            double.start(2)
            ALERTS.append("asked")

        task = asyncio.create_task(double(1))
        task.add_done_callback(ask)
        await task

    drive = begin(body)
    put_away(drive)
    assert ALERTS == []
    assert drive.asked == ["double"]


@pytest.mark.parametrize("draw", [holdfast.uuid4, holdfast.rng])
def test_finally_can_not_draw_while_its_body_is_put_away(begin, draw):
    @workflow
    async def body() -> None:
        try:
            await double(1)
        finally:
            draw()
            ALERTS.append("drew")

    put_away(begin(body))
    assert ALERTS == []


def test_tasks_made_while_a_body_is_put_away_do_nothing(begin):
    @workflow
    async def body() -> None:
        try:
            await double(1)
        finally:
            asyncio.create_task(leave_a_trace())  # noqa: RUF006  # nobody waits for it

    async def leave_a_trace() -> None:
        await asyncio.sleep(0)
        ALERTS.append("ran")

    put_away(begin(body))
    gc.collect()
    assert ALERTS == []


def test_a_coroutine_never_started_is_put_away_without_a_warning(begin, recwarn):
    @workflow
    async def body() -> int:
        later = double(1)
        await double(2)
        return await later

    put_away(begin(body))
    assert [str(one.message) for one in recwarn] == []


def test_a_task_never_started_is_put_away_without_a_warning(begin, recwarn):
    @workflow
    async def body() -> int:
        await double(2)
        task = asyncio.create_task(double(1))
        return await task

    drive = begin(body)
    put_away(drive)
    gc.collect()
    assert [str(one.message) for one in recwarn] == []


def test_an_async_generator_between_two_items_is_closed_in_its_own_run(begin):
    @workflow
    async def body() -> None:
        async for _ in two_items():
            await double(1)

    begin(body).execution.put_away()
    assert ALERTS == ["run-1"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_generator_in_a_reference_cycle_never_asks_for_a_step_in_another_run(begin):
    """The garbage collector runs its `finally` at any time; that must not reach the run that is advancing then."""

    @workflow
    async def first() -> None:
        def items():
            try:
                yield held
            finally:
                pending = triple.start(1)
                ALERTS.append(pending.key)

        held: list[object] = []
        held.append(items())
        next(held[0])  # type: ignore[call-overload]
        await double(1)

    @workflow
    async def second() -> int:
        gc.collect()
        return await double(2)

    begin(first).execution.put_away()
    drive = begin(second, run_id="run-2").finish()
    assert ALERTS == []
    assert drive.asked == ["double"]
