"""Durable time: a run's clock is that of the last entry delivered, and every wait is a timer of the journal."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime, timedelta

import pytest

from holdfast import blocking, now, sleep, sleep_until, workflow
from holdfast.errors import BadDuration
from holdfast.model import moment_of
from tests.engine.drive import START
from tests.engine.samples import double

SECOND = 1_000_000


@workflow
async def asyncio_sleep() -> None:
    await asyncio.sleep(90)


@workflow
async def asyncio_timeout() -> None:
    async with asyncio.timeout(90):
        await double(1)


@workflow
async def asyncio_timeout_at() -> None:
    async with asyncio.timeout_at(asyncio.get_running_loop().time() + 90):
        await double(1)


@workflow
async def asyncio_wait_for() -> None:
    await asyncio.wait_for(double(1), 90)


@workflow
async def asyncio_wait() -> None:
    await asyncio.wait([asyncio.create_task(double(1))], timeout=90)


@workflow
async def call_later() -> None:
    reached = asyncio.Event()
    asyncio.get_running_loop().call_later(90, reached.set)
    await reached.wait()


@workflow
async def call_at() -> None:
    loop, reached = asyncio.get_running_loop(), asyncio.Event()
    loop.call_at(loop.time() + 90, reached.set)
    await reached.wait()


@workflow
async def holdfast_sleep() -> None:
    await sleep("1m30s")


@workflow
async def holdfast_sleep_until() -> None:
    await sleep_until(now() + timedelta(seconds=90))


@workflow
def def_sleep() -> None:
    blocking.sleep(90)


@workflow
def def_sleep_by_the_other_name() -> None:
    sleep(90)


@workflow
def def_sleep_until() -> None:
    blocking.sleep_until(now() + timedelta(seconds=90))


@workflow
async def waits_for_a_moment_later() -> None:
    waiting = sleep_until(now() + timedelta(hours=1))
    await sleep("30m")
    await waiting


def test_a_sleep_until_a_moment_that_begins_later_still_ends_at_that_moment(begin):
    drive = begin(waits_for_a_moment_later)
    drive.fire()
    assert drive.execution.next_timer() == START + 3_600 * SECOND


WAITS = [
    asyncio_sleep, asyncio_timeout, asyncio_timeout_at, asyncio_wait_for, asyncio_wait, call_later, call_at,
    holdfast_sleep, holdfast_sleep_until, def_sleep, def_sleep_by_the_other_name, def_sleep_until,
]  # fmt: skip


@pytest.mark.parametrize("body", WAITS, ids=lambda one: one.name)
def test_every_wait_is_a_durable_timer(begin, body):
    drive = begin(body)
    assert drive.execution.next_timer() == START + 90 * SECOND


@pytest.mark.parametrize("body", WAITS, ids=lambda one: one.name)
def test_every_wait_ends_when_its_timer_fires(begin, body):
    drive = begin(body)
    drive.fire()
    assert drive.check().ended is not None


@pytest.mark.parametrize("body", WAITS, ids=lambda one: one.name)
def test_setting_a_timer_writes_no_entry(begin, body):
    assert [entry.kind for entry in begin(body).entries if entry.kind != "step_asked"] == ["started"]


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [("1h30m", 5400), ("500ms", 0.5), (2, 2), (0.5, 0.5), (timedelta(days=1), 86400), ("2d", 172800), ("1w", 604800)],
)
def test_every_form_of_duration_means_what_it_says(begin, duration, seconds):
    @workflow
    async def body() -> None:
        await sleep(duration)

    assert begin(body).execution.next_timer() == START + round(seconds * SECOND)


@pytest.mark.parametrize("nonsense", ["", "5", "5 parsecs", "-1s", -1, float("nan"), float("inf"), None, True, "1s1s"])
def test_a_nonsense_duration_raises_where_it_is_written(begin, nonsense):
    @workflow
    async def body() -> str:
        try:
            sleep(nonsense)
        except BadDuration:
            return "refused"
        return "taken"

    assert begin(body).result == "refused"


def test_a_naive_datetime_is_refused(begin):
    @workflow
    async def body() -> str:
        try:
            sleep_until(datetime(2030, 1, 1))
        except BadDuration as error:
            return str(error)
        return "taken"

    assert "aware" in begin(body).result


def test_a_moment_in_the_past_is_no_wait(begin):
    @workflow
    async def body() -> None:
        await sleep_until(datetime(2000, 1, 1, tzinfo=UTC))

    assert begin(body).finish().check().status == "completed"


def test_a_sleep_of_zero_ends(begin):
    @workflow
    async def body() -> None:
        await sleep(0)

    assert begin(body).finish().check().status == "completed"


def test_asyncio_sleep_of_zero_only_lets_other_tasks_run(begin):
    @workflow
    async def body() -> list[int]:
        order = []

        async def other() -> None:
            order.append(1)

        task = asyncio.create_task(other())
        await asyncio.sleep(0)
        order.append(2)
        await task
        return order

    assert begin(body).result == [1, 2]


def test_any_other_wake_up_does_not_end_a_sleep(begin):
    @workflow
    async def body() -> list[str]:
        order = []

        async def slow() -> None:
            await sleep("1h")
            order.append("slept")

        async def quick() -> None:
            await double(1)
            order.append("stepped")

        await asyncio.gather(slow(), quick())
        return order

    drive = begin(body)
    drive.complete("double")
    assert drive.execution.next_timer() == START + 3600 * SECOND
    assert drive.finish().check().result == ["stepped", "slept"]


def test_timers_due_together_fire_in_the_order_of_their_times(begin):
    @workflow
    async def body() -> list[int]:
        order: list[int] = []

        async def one(n: int) -> None:
            await sleep(n)
            order.append(n)

        await asyncio.gather(one(3), one(1), one(2))
        return order

    drive = begin(body)
    due = drive.execution.due_timers(START + 5 * SECOND)
    assert [at for at, _ in due] == [START + SECOND, START + 2 * SECOND, START + 3 * SECOND]
    assert drive.finish().check().result == [1, 2, 3]


def test_timers_of_one_moment_fire_in_the_order_they_were_set(begin):
    @workflow
    async def body() -> list[int]:
        order: list[int] = []

        async def one(n: int) -> None:
            await sleep(1)
            order.append(n)

        await asyncio.gather(*(one(n) for n in range(5)))
        return order

    assert begin(body).finish().check().result == [0, 1, 2, 3, 4]


def test_a_cancelled_sleep_leaves_no_timer(begin):
    @workflow
    async def body() -> int:
        task = asyncio.create_task(sleep("1h"))
        await asyncio.sleep(0)
        task.cancel()
        return await double(1)

    drive = begin(body)
    assert drive.execution.next_timer() is None
    assert drive.finish().check().result == 2


def test_a_cancelled_handle_does_not_fire(begin):
    @workflow
    async def body() -> list[str]:
        fired: list[str] = []
        handle = asyncio.get_running_loop().call_later(1, fired.append, "cancelled")
        asyncio.get_running_loop().call_later(2, fired.append, "kept")
        handle.cancel()
        await asyncio.sleep(3)
        return fired

    assert begin(body).finish().check().result == ["kept"]


def test_a_nested_timeout_ends_the_inner_one_first(begin):
    @workflow
    async def body() -> list[str]:
        order = []
        try:
            async with asyncio.timeout(10):
                try:
                    async with asyncio.timeout(5):
                        await asyncio.Event().wait()
                except TimeoutError:
                    order.append("inner")
                await asyncio.Event().wait()
        except TimeoutError:
            order.append("outer")
        return order

    assert begin(body).finish().check().result == ["inner", "outer"]


def test_a_timeout_can_be_rescheduled(begin):
    @workflow
    async def body() -> str:
        try:
            async with asyncio.timeout(5) as limit:
                await double(1)
                limit.reschedule(asyncio.get_running_loop().time() + 100)
                await double(2)
        except TimeoutError:
            return "late"
        return "in time"

    drive = begin(body)
    drive.complete("double")
    assert drive.execution.next_timer() == drive.at + 100 * SECOND
    assert drive.finish().check().result == "in time"


def test_cancelled_timers_are_not_kept_while_an_earlier_timer_is_open(begin):
    @workflow
    async def body() -> None:
        async with asyncio.timeout(3600):
            for _ in range(100):
                async with asyncio.timeout(86400):
                    await double(1)
            await sleep(60)
            await sleep(86400)

    drive = begin(body)
    while drive.execution.commands:
        drive.complete(next(iter(drive.execution.commands)))
    assert len(drive.execution.loop.timers) == 2
    assert len(drive.execution.loop._due) < 30
    drive.fire()
    drive.fire()
    assert isinstance(drive.check().error, TimeoutError)


def test_a_timeout_may_be_endless(begin):
    @workflow
    async def body() -> int:
        async with asyncio.timeout(math.inf), asyncio.timeout_at(math.inf):
            return await double(1)

    drive = begin(body)
    drive.complete("double")
    assert drive.check().result == 2


def test_an_endless_sleep_is_as_long_as_a_store_can_tell(begin):
    @workflow
    async def body() -> None:
        await asyncio.sleep(math.inf)

    due_at = begin(body).execution.next_timer()
    assert moment_of(START) + timedelta(days=365_000) < moment_of(due_at)
