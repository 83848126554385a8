"""P9: a body that is put away can neither execute a step nor change an outcome, whatever it catches."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
from asyncio import tasks

import pytest

from holdfast import Pending, current_run, sleep, workflow
from holdfast.engine import Runners, calls, departure, hosts
from holdfast.errors import Suspended
from tests.engine.alerts import ALERTS, put_away
from tests.engine.samples import clean_up, double, echo, triple


@workflow
async def clean() -> None:
    await clean_up()


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


def test_finally_can_not_sleep_while_its_body_is_put_away(begin):
    @workflow
    async def body() -> None:
        try:
            await sleep("1h")
        finally:
            await sleep("1h")
            ALERTS.append("slept")

    put_away(begin(body))
    assert ALERTS == []


def test_finally_can_not_start_a_step_while_its_body_is_put_away(begin):
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


def test_what_a_body_calls_soon_while_it_is_put_away_runs_in_no_other_run(begin):
    @workflow
    async def body() -> None:
        try:
            await double(1)
        finally:
            asyncio.get_running_loop().call_soon(ALERTS.append, "called")

    runners = Runners()
    begin(body, runners=runners).execution.put_away()
    other = begin(clean, runners=runners)
    other.complete("clean_up")
    assert other.ended is not None
    assert ALERTS == []


def test_an_endless_loop_that_swallows_every_exception_is_given_up_and_reported(begin, caplog):
    @workflow
    async def body() -> None:
        while True:
            try:
                await double(1)
            except BaseException:
                ALERTS.append("again")

    put_away(begin(body))
    assert len(ALERTS) < 10_000
    assert "goes on calling although it was put away" in caplog.text


def test_an_endless_loop_in_a_def_body_that_swallows_every_exception_is_given_up(begin):
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


def test_an_endless_loop_of_plain_sleeps_that_swallows_every_exception_is_given_up_and_reported(begin, caplog):
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
    assert "would not end when it was put away" in caplog.text


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


@pytest.fixture
def one_task_a_thread(monkeypatch):
    """What Python 3.14 does: while a task of one loop is current, none of another can be entered."""
    if sys.version_info >= (3, 14):
        return
    # A test that failed may have left some.
    before = list(tasks._current_tasks)

    def enter(loop, task):
        if others := [one for at, one in tasks._current_tasks.items() if at not in (loop, *before)]:
            raise RuntimeError(f"Cannot enter into task {task!r} while another task {others[0]!r} is being executed.")
        tasks._enter_task(loop, task)

    monkeypatch.setattr(hosts, "ONE_A_THREAD", True)
    for module in (hosts, departure, calls):
        monkeypatch.setattr(module, "_enter_task", enter)


def test_a_body_is_put_away_from_a_task_of_a_thread_that_has_one_current_task(begin, one_task_a_thread):
    @workflow
    async def body() -> None:
        await asyncio.gather(double(1), sleep(1))

    async def host() -> None:
        before = asyncio.current_task()
        put_away(begin(body))
        assert asyncio.current_task() is before

    asyncio.run(host())


def test_a_stubborn_body_does_not_stay_the_current_task_of_its_thread(begin, one_task_a_thread):
    @workflow
    def body() -> None:
        while True:
            with contextlib.suppress(BaseException):
                double(1)

    async def host() -> None:
        before = asyncio.current_task()
        put_away(begin(body))
        assert asyncio.current_task() is before

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


def test_a_task_that_shares_its_context_with_a_blocked_task_is_put_away(begin):
    @workflow
    async def body() -> None:
        shared = contextvars.copy_context()

        async def blocked() -> None:
            triple(1)

        async def waiting() -> None:
            try:
                await double(1)
            finally:
                ALERTS.append("put away")

        await asyncio.gather(*(asyncio.create_task(task(), context=shared) for task in (blocked, waiting)))

    drive = begin(body)
    assert drive.open == ["triple", "double"]
    drive.execution.put_away()
    assert ALERTS == ["put away"]
