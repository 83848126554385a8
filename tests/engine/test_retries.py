"""A workflow's own retry: the body begins again from its last failure, and what succeeded is kept."""

from __future__ import annotations

import asyncio

from holdfast import (
    DeadlineExceeded,
    FatalError,
    JournalLimitReached,
    Retry,
    RetryAfter,
    compensate,
    current_run,
    rng,
    rollback,
    wait_for_event,
    workflow,
)
from holdfast.model import history_of
from tests.engine.drive import note
from tests.engine.samples import Declined, double, echo, refuse

THRICE = Retry(attempts=3, initial="1s", jitter=0)


@workflow(retry=THRICE)
async def order() -> int:
    n = await double(1)
    await refuse("visa")
    return n + await double(2)


def test_a_failed_body_is_to_be_tried_again(begin):
    drive = begin(order)
    drive.complete("double")
    drive.fail("refuse", Declined("visa", cents=1))
    assert drive.ended is None
    assert drive.retrying is not None
    assert drive.retrying.attempt == 1


def test_a_body_that_has_rolled_back_is_not_tried_again(begin):
    @workflow(retry=THRICE)
    async def body() -> None:
        compensate(echo, "a")
        await rollback()
        raise ValueError("no")

    drive = begin(body).finish()
    assert drive.retrying is None
    assert isinstance(drive.check().error, ValueError)


def test_a_run_that_has_reached_its_journal_limit_is_not_tried_again(begin):
    @workflow(retry=THRICE, journal_limit=5)
    async def body() -> None:
        while True:
            await double(1)

    drive = begin(body).finish()
    assert drive.retrying is None
    assert isinstance(drive.error, JournalLimitReached)


def test_a_run_that_has_reached_its_journal_limit_in_a_task_group_is_not_tried_again(begin):
    @workflow(retry=THRICE, journal_limit=5)
    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(endless())

    async def endless() -> None:
        while True:
            await double(1)

    drive = begin(body).finish()
    assert drive.retrying is None
    assert isinstance(drive.error, ExceptionGroup)


def test_no_try_begins_after_the_time_that_the_policy_allows(begin):
    @workflow(retry=Retry(attempts=None, initial="1s", jitter=0, within="1s"))
    async def body() -> None:
        await double(1)
        raise ValueError("no")

    drive = begin(body).finish()
    assert drive.retrying is None
    assert isinstance(drive.check().error, ValueError)


def test_the_delay_is_the_policys(begin):
    drive = begin(order)
    drive.complete("double")
    drive.fail("refuse", Declined("visa", cents=1))
    assert drive.retrying is not None
    assert drive.retrying.retry_at == drive.at + 1_000_000


def test_a_retried_run_keeps_its_results_and_asks_for_the_failed_step_again(begin):
    drive = begin(order)
    drive.complete("double")
    drive.fail("refuse", Declined("visa", cents=1))
    drive.run_again()
    assert drive.open == ["refuse"]


def test_the_failed_steps_attempts_are_counted_from_one(begin):
    drive = begin(order)
    drive.complete("double")
    drive.retry_step("refuse", Declined("visa", cents=1))
    drive.fail("refuse", Declined("visa", cents=1))
    drive.run_again()
    assert drive.execution.commands["refuse"].attempt == 1


def test_a_second_try_completes(begin):
    drive = begin(order)
    drive.complete("double")
    drive.fail("refuse", Declined("visa", cents=1))
    drive.run_again()
    drive.complete("refuse", "paid")
    assert drive.finish().result == 6


def test_the_last_try_fails_the_run(begin):
    drive = begin(order)
    drive.complete("double")
    for _ in range(2):
        drive.fail("refuse", Declined("visa", cents=1))
        drive.run_again()
    drive.fail("refuse", Declined("visa", cents=1))
    assert isinstance(drive.error, Declined)


def test_the_bodys_attempt_is_counted(begin):
    @workflow(retry=THRICE)
    async def body() -> int:
        await refuse("visa")
        return current_run().attempt

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    drive.run_again()
    drive.complete("refuse", "paid")
    assert drive.result == 2


def test_a_fatal_error_is_not_tried_again(begin):
    @workflow(retry=THRICE)
    async def body() -> None:
        raise FatalError("enough")

    assert begin(body).status == "failed"


def test_a_fatal_error_among_those_of_a_task_group_is_not_tried_again(begin):
    @workflow(retry=THRICE)
    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(refuse("visa"))

    drive = begin(body)
    drive.fail("refuse", FatalError("enough"))
    assert drive.status == "failed"


def test_an_error_that_the_policy_can_t_read_fails_the_run(begin):
    @workflow(retry=THRICE)
    async def body() -> None:
        compensate(echo, "a")
        later = RetryAfter("1s")
        later.delay = "soon"
        raise later

    drive = begin(body).finish()
    assert drive.asked == ["echo"]
    assert isinstance(drive.check().error, RetryAfter)


def test_an_error_listed_in_unless_is_not_tried_again(begin):
    @workflow(retry=Retry(attempts=3, unless=(Declined,)))
    async def body() -> None:
        await refuse("visa")

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    assert drive.status == "failed"


def test_a_cancelled_run_is_not_tried_again(begin):
    drive = begin(order)
    drive.cancel()
    assert drive.status == "cancelled"


def test_a_run_past_its_deadline_is_not_tried_again(begin):
    drive = begin(order)
    drive.cancel(deadline=True)
    assert drive.status == "failed"


def test_a_run_that_fails_when_its_deadline_is_over_is_not_tried_again(begin):
    drive = begin(order, deadline_at=1_700_000_001_000_000)
    drive.at = 1_700_000_002_000_000
    drive.fail(drive.open[0], ValueError("too late for another try"))
    assert drive.retrying is None
    assert isinstance(drive.error, DeadlineExceeded)


def test_a_sibling_that_ended_after_the_failure_is_kept(begin):
    """The step was asked for before the cut, and its result came after it: the step is not executed again."""

    @workflow(retry=THRICE)
    async def body() -> int:
        async def work() -> int:
            return await double(1)

        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        try:
            await refuse("visa")
        except Declined:
            note(await task)
            raise
        return await task

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    drive.complete("double")
    assert drive.retrying is not None
    drive.run_again()
    assert drive.open == ["refuse"]
    drive.complete("refuse", "paid")
    assert drive.result == 2


def test_a_retried_body_goes_on_from_the_failure_that_ended_it_and_not_from_a_caught_one(begin):
    @workflow(retry=THRICE)
    async def body() -> str:
        try:
            await refuse("visa")
        except Declined:
            pass
        await double(1)
        return await refuse("master")

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    drive.complete("double")
    drive.fail("refuse:1", Declined("master", cents=1))
    drive.run_again()
    assert drive.open == ["refuse:1"]


def test_waits_that_were_open_at_the_failure_are_closed_and_those_just_asked_for_are_not_registered(begin):
    @workflow(retry=THRICE)
    async def body() -> None:
        waiting = [asyncio.create_task(wait_for_event("paid"))]
        await double(1)
        waiting.append(asyncio.create_task(wait_for_event("shipped")))
        await asyncio.sleep(0)
        raise ValueError("no")

    drive = begin(body)
    assert [wait.name for wait in drive.out[0].waits] == ["paid"]
    drive.complete("double")
    assert drive.retrying is not None
    assert (drive.out[-1].closed, drive.out[-1].waits) == ((1,), ())


def test_random_numbers_before_the_retry_are_the_same(begin):
    @workflow(retry=THRICE)
    async def body() -> str:
        first = rng().random()
        note(first)
        return await refuse("visa")

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    before = list(drive.notes)
    drive.run_again()
    assert drive.notes == before


def test_a_retried_body_replays_from_every_later_point(begin):
    drive = begin(order)
    drive.complete("double")
    drive.fail("refuse", Declined("visa", cents=1))
    drive.run_again()
    drive.complete("refuse", "paid")
    assert drive.open == ["double:1"]
    again = drive.live()
    again.replay(history_of(drive.entries).entries)
    assert list(again.commands) == ["double:1"]


def test_steps_still_open_at_the_failure_are_asked_for_again(begin):
    @workflow(retry=THRICE)
    async def body() -> object:
        other = asyncio.create_task(echo("slow"))
        await asyncio.sleep(0)
        await refuse("visa")
        return await other

    drive = begin(body)
    drive.fail("refuse", Declined("visa", cents=1))
    assert drive.withdrawn == ["echo"]
    drive.run_again()
    assert drive.open == ["echo", "refuse"]


TWICE = Retry(attempts=2, initial="1s", jitter=0)


@workflow(retry=TWICE)
async def brave_the_second_time() -> list[int]:
    seen = [current_run().attempt]
    await double(1)
    if current_run().attempt == 1:
        await refuse("card")
    seen.append(current_run().attempt)
    await double(seen[-1])
    return seen


def test_a_body_that_reads_its_attempt_number_replays_the_same(begin):
    drive = begin(brave_the_second_time)
    drive.complete("double")
    drive.fail("refuse", ValueError("no"))
    assert drive.retrying is not None
    history = history_of(drive.entries)
    again = drive.live()
    again.replay(history.entries, history.lives)
    assert again.run.attempt == 2
    assert list(again.commands) == ["refuse"]


def test_the_first_part_of_the_history_replays_with_attempt_one(begin):
    drive = begin(brave_the_second_time)
    drive.complete("double")
    drive.fail("refuse", ValueError("no"))
    drive.run_again()
    drive.complete("refuse", "ok")
    assert drive.finish().result == [1, 2]
    history = history_of(drive.entries)
    drive.live().replay(history.entries[:-1], history.lives)


def test_a_body_that_fails_without_any_failed_step_goes_on_where_it_failed(begin):
    lives: list[int] = []

    @workflow(retry=THRICE)
    async def body() -> int:
        n = await double(1)
        lives.append(n)
        if len(lives) == 1:
            raise ValueError("the first time only")
        return n + await double(2)

    drive = begin(body)
    drive.complete("double")
    assert drive.retrying is not None
    drive.run_again()
    assert drive.finish().result == 6
    assert drive.asked.count("double") == 1


def test_a_body_that_always_fails_by_itself_fails_the_run_after_its_last_try(begin):
    @workflow(retry=THRICE)
    async def body() -> None:
        await double(1)
        raise ValueError("always")

    drive = begin(body)
    drive.complete("double")
    for _ in range(2):
        assert drive.retrying is not None
        drive.run_again()
    assert isinstance(drive.error, ValueError)
