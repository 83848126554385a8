"""P9: a body that is put away can neither execute a step nor change an outcome, whatever it catches."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc

import pytest

from holdfast import Pending, current_run, sleep, workflow
from holdfast.engine import Runners
from holdfast.errors import Suspended
from tests.engine.drive import Drive
from tests.engine.samples import clean_up, double, echo, triple

ALERTS: list[str] = []


@pytest.fixture(autouse=True)
def fresh_alerts():
    ALERTS.clear()
    yield
    ALERTS.clear()


def put_away(drive: Drive) -> None:
    """Put the live body away, and see that it left nothing behind."""
    entries = list(drive.entries)
    drive.execution.put_away()
    gc.collect()
    assert drive.entries == entries
    assert drive.execution.fault is None


def test_except_exception_does_not_see_the_suspension(begin):
    @workflow
    async def body() -> None:
        try:
            await double(1)
        except Exception:
            ALERTS.append("alert")

    put_away(begin(body))
    assert ALERTS == []


def test_suspension_is_no_exception():
    assert not issubclass(Suspended, Exception)


def test_except_base_exception_can_not_ask_for_a_step(begin):
    @workflow
    async def body() -> str:
        try:
            await double(1)
        except BaseException:
            await clean_up()
            ALERTS.append("cleaned up")
        return "swallowed"

    drive = begin(body)
    put_away(drive)
    assert ALERTS == []
    assert drive.asked == ["double"]


def test_finally_can_not_ask_for_a_step(begin):
    @workflow
    async def body() -> None:
        try:
            await double(1)
        finally:
            await clean_up()
            ALERTS.append("cleaned up")

    drive = begin(body)
    put_away(drive)
    assert ALERTS == []
    assert drive.asked == ["double"]


def test_finally_in_a_def_body_can_not_ask_for_a_step(begin):
    @workflow
    def body() -> None:
        try:
            triple(1)
        finally:
            clean_up()
            ALERTS.append("cleaned up")

    drive = begin(body)
    put_away(drive)
    assert ALERTS == []
    assert drive.asked == ["triple"]


def test_finally_can_not_sleep_either(begin):
    @workflow
    async def body() -> None:
        try:
            await sleep("1h")
        finally:
            await sleep("1h")
            ALERTS.append("slept")

    put_away(begin(body))
    assert ALERTS == []


def test_finally_can_not_start_a_pending(begin):
    @workflow
    async def body() -> None:
        try:
            await double(1)
        finally:
            double.start(2)
            ALERTS.append("started")

    put_away(begin(body))
    assert ALERTS == []


def test_a_return_in_finally_does_not_complete_the_run(begin):
    @workflow
    async def body() -> str:
        try:
            await double(1)
        finally:
            return "swallowed"  # noqa: B012

    drive = begin(body)
    put_away(drive)
    assert drive.ended is None


def test_a_def_body_that_swallows_everything_does_not_complete(begin):
    @workflow
    def body() -> str:
        with contextlib.suppress(BaseException):
            triple(1)
        return "swallowed"

    drive = begin(body)
    put_away(drive)
    assert drive.ended is None


def test_the_run_goes_on_where_it_was_after_its_body_was_put_away(begin):
    @workflow
    async def body() -> int:
        try:
            return await double(1)
        except BaseException:
            return -1

    drive = begin(body)
    put_away(drive)
    drive.execution = drive.replay()
    drive.complete("double")
    assert drive.result == 2


def test_an_endless_loop_that_swallows_everything_ends_the_putting_away(begin):
    @workflow
    async def body() -> None:
        while True:
            try:
                await double(1)
            except BaseException:
                ALERTS.append("again")

    put_away(begin(body))
    assert len(ALERTS) < 10_000


def test_an_endless_loop_in_a_def_body_that_swallows_everything_ends_the_putting_away(begin):
    @workflow
    def body() -> None:
        while True:
            try:
                triple(1)
            except BaseException:
                ALERTS.append("again")

    put_away(begin(body))
    assert len(ALERTS) < 10_000


def test_another_run_of_the_same_runners_works_after_a_stubborn_one(begin):
    @workflow
    def stubborn() -> None:
        while True:
            with contextlib.suppress(BaseException):
                triple(1)

    @workflow
    def polite() -> int:
        return triple(2)

    runners = Runners()
    put_away(begin(stubborn, runners=runners))
    assert begin(polite, runners=runners, run_id="run-2").finish().check().result == 6


def test_an_endless_loop_of_plain_sleeps_that_swallows_ends_the_putting_away(begin):
    @workflow
    async def body() -> None:
        while True:
            try:
                await asyncio.sleep(0)
                await asyncio.Event().wait()
            except BaseException:
                ALERTS.append("again")

    put_away(begin(body))
    assert len(ALERTS) < 10_000


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

        async for _ in items():
            pass

    put_away(begin(body))
    assert ALERTS == ["run-1"]


def test_a_generator_between_two_items_is_closed_in_its_own_run(begin):
    """Collected later, its `finally` would write into whichever run is advancing then."""

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
        async def items():
            try:
                yield 1
                yield 2
            finally:
                ALERTS.append(current_run().id)

        async for _ in items():
            break
        return await double(1)

    drive = begin(body).finish()
    assert drive.result == 2
    assert ALERTS == ["run-1"]


def test_an_async_context_manager_can_not_clean_up_with_a_step_while_put_away(begin):
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
        async with asyncio.TaskGroup() as group:
            group.create_task(double(1))
            group.create_task(echo(1))

    put_away(begin(body))


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


def test_a_done_callback_can_not_ask_while_put_away(begin):
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


def test_new_tasks_made_while_put_away_do_nothing(begin):
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


def test_putting_away_twice_changes_nothing(begin):
    @workflow
    async def body() -> None:
        try:
            await double(1)
        finally:
            ALERTS.append("once")

    drive = begin(body)
    put_away(drive)
    put_away(drive)
    assert ALERTS == ["once"]


def test_a_body_is_not_left_to_the_collector_when_its_run_ends(begin):
    """A task that lost is closed with the run that ends, in that run's context."""

    @workflow
    async def body() -> int:
        async def loser() -> None:
            try:
                await double(1)
            finally:
                ALERTS.append(current_run().id)

        task = asyncio.create_task(loser())
        await echo(1)
        return len(task.get_name()[:0])

    drive = begin(body)
    drive.complete("echo")
    assert drive.status == "completed"
    drive.execution.put_away()
    assert ALERTS == ["run-1"]


def test_a_put_away_body_runs_in_its_own_context(begin):
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")

    @workflow
    async def body(name: str) -> None:
        tenant.set(name)
        try:
            await double(1)
        finally:
            ALERTS.append(tenant.get())

    first, second = begin(body, "a"), begin(body, "b", run_id="run-2")
    put_away(first)
    put_away(second)
    assert ALERTS == ["a", "b"]


def test_putting_away_from_inside_another_loop_leaves_that_loop_running(begin):
    @workflow
    async def body() -> None:
        await asyncio.gather(double(1), sleep(1))

    async def host() -> asyncio.AbstractEventLoop:
        before = asyncio.get_running_loop()
        put_away(begin(body))
        assert asyncio.get_running_loop() is before
        await asyncio.sleep(0)
        return before

    asyncio.run(host())


def test_a_blocked_def_step_in_an_async_body_is_put_away(begin):
    @workflow
    async def body() -> None:
        try:
            triple(1)
        finally:
            ALERTS.append(current_run().id)
            triple(2)
            ALERTS.append("went on")

    put_away(begin(body))
    assert ALERTS == ["run-1"]


def test_a_pending_held_by_the_outside_can_not_wake_a_dead_body(begin):
    held: list[Pending[int]] = []

    @workflow
    async def body() -> None:
        held.append(double.start(1))
        await held[0]
        ALERTS.append("woke")

    drive = begin(body)
    put_away(drive)
    held[0].cancel()
    assert ALERTS == []
