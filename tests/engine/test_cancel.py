"""Cancel and deadline (semantics §7.3, §7.4): one entry, one CancelledError in the main task, and time to clean up."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import DeadlineExceeded, Retry, sleep, workflow
from holdfast.model import Cancel, Started
from tests.engine.drive import START, note
from tests.engine.samples import clean_up, double, echo, refuse


@workflow
async def tidy() -> str:
    try:
        await double(1)
        return "done"
    finally:
        note("cleaning")
        await clean_up()
        note("clean")


def test_a_cancel_ends_a_wait(begin):
    @workflow
    async def body() -> None:
        await double(1)

    drive = begin(body)
    drive.cancel()
    assert drive.check().status == "cancelled"


def test_a_cancel_withdraws_the_step_that_was_waited_for(begin):
    drive = begin(tidy)
    drive.cancel()
    assert drive.withdrawn == ["double"]


def test_a_cancel_wakes_a_sleep(begin):
    @workflow
    async def body() -> None:
        await sleep("365d")

    drive = begin(body)
    drive.cancel()
    assert drive.check().status == "cancelled"


def test_finally_may_await_steps(begin):
    drive = begin(tidy)
    drive.cancel()
    assert drive.open == ["clean_up"]
    drive.finish()
    assert drive.check().status == "cancelled"


def test_finally_may_sleep(begin):
    @workflow
    async def body() -> None:
        try:
            await double(1)
        finally:
            await sleep("1h")
            note("slept")

    drive = begin(body)
    drive.cancel()
    drive.fire()
    assert (drive.check().status, drive.notes) == ("cancelled", ["slept"])


def test_a_second_cancel_changes_nothing(begin):
    drive = begin(tidy)
    drive.cancel()
    entries = list(drive.entries)
    drive.cancel()
    assert drive.entries == entries
    assert drive.finish().check().notes == ["cleaning", "clean"]


def test_a_body_that_returns_in_spite_of_a_cancel_completes(begin):
    @workflow
    async def body() -> str:
        try:
            await double(1)
        except asyncio.CancelledError:
            return "completed all the same"
        return "not cancelled"

    drive = begin(body)
    drive.cancel()
    assert drive.check().result == "completed all the same"


def test_a_body_that_goes_on_after_a_cancel_is_not_cancelled_again(begin):
    @workflow
    async def body() -> int:
        try:
            await double(1)
        except asyncio.CancelledError:
            pass
        first = await double(2)
        return first + await double(3)

    drive = begin(body)
    drive.cancel()
    assert drive.finish().check().result == 10


def test_a_body_that_fails_in_its_cleanup_fails(begin):
    @workflow
    async def body() -> None:
        try:
            await double(1)
        finally:
            raise ValueError("cleanup")

    drive = begin(body)
    drive.cancel()
    assert drive.check().status == "failed"


def test_a_cancel_is_not_a_timeout(begin):
    """asyncio.timeout tells the two apart."""

    @workflow
    async def body() -> None:
        try:
            async with asyncio.timeout(5):
                await double(1)
        except TimeoutError:
            note("timeout")

    drive = begin(body)
    drive.cancel()
    assert drive.check().status == "cancelled"
    assert drive.notes == []


def test_a_timeout_is_not_a_cancel(begin):
    @workflow
    async def body() -> str:
        try:
            async with asyncio.timeout(5):
                await double(1)
        except TimeoutError:
            return "late"
        return ""

    drive = begin(body)
    drive.fire()
    assert drive.check().status == "completed"


def test_task_cancelling_is_one_after_a_cancel(begin):
    @workflow
    async def body() -> int:
        task = asyncio.current_task()
        assert task is not None
        try:
            await double(1)
        except asyncio.CancelledError:
            return task.cancelling()
        return -1

    drive = begin(body)
    drive.cancel()
    assert drive.check().result == 1


def test_a_cancel_goes_to_the_main_task_only(begin):
    @workflow
    async def body() -> list[int]:
        other = asyncio.create_task(double(1))
        try:
            await echo(1)
        except asyncio.CancelledError:
            return [await other]
        return []

    drive = begin(body)
    drive.cancel()
    assert drive.open == ["double"]
    assert drive.finish().check().result == [2]


def test_a_cancel_goes_through_gather(begin):
    @workflow
    async def body() -> None:
        await asyncio.gather(double(1), sleep("1h"), double(2))

    drive = begin(body)
    drive.cancel()
    assert drive.check().status == "cancelled"


def test_a_cancel_goes_through_a_task_group(begin):
    @workflow
    async def body() -> None:
        async def one() -> None:
            try:
                await double(1)
            finally:
                note(await double(5))

        async with asyncio.TaskGroup() as group:
            group.create_task(one())
            group.create_task(one())

    drive = begin(body)
    drive.cancel()
    drive.finish()
    assert (drive.check().status, drive.notes) == ("cancelled", [10, 10])


def test_a_cancelled_error_raised_by_the_body_itself_is_no_completion(begin):
    @workflow
    async def body() -> None:
        raise asyncio.CancelledError

    assert begin(body).status in ("cancelled", "failed")


def test_a_cancel_delivered_with_the_start_finds_a_body_that_has_begun(begin):
    drive = begin(tidy, begin=False)
    drive.take(Started(START, drive.seed), Cancel(START + 1, None))
    drive.finish()
    assert drive.check().status == "cancelled"


def test_a_result_before_the_cancel_in_one_turn_counts(begin):
    @workflow
    async def body() -> int:
        return await double(1)

    drive = begin(body)
    drive.take(drive.completed("double"), Cancel(drive.tick(), None))
    assert drive.check().result == 2


def test_a_result_after_the_cancel_in_one_turn_is_left_out(begin):
    @workflow
    async def body() -> int:
        return await double(1)

    drive = begin(body)
    cancel, result = Cancel(drive.tick(), None), drive.completed("double")
    drive.take(cancel, result)
    assert drive.check().status == "cancelled"
    assert result not in drive.entries


def test_a_step_that_fails_with_cancelled_error_does_not_cancel_the_run(begin):
    @workflow
    async def body() -> str:
        try:
            await echo(1)
        except Exception as error:
            return type(error).__name__
        return ""

    drive = begin(body)
    drive.fail("echo", asyncio.CancelledError("a stray one"))
    assert drive.check().result == "StepFailed"


def test_a_deadline_cancels_the_body(begin):
    drive = begin(tidy)
    drive.cancel(deadline=True)
    assert drive.open == ["clean_up"]


def test_a_deadline_fails_the_run_with_deadline_exceeded(begin):
    drive = begin(tidy, deadline_at=START + 10_000_000)
    drive.cancel(deadline=True)
    drive.finish()
    assert isinstance(drive.check().error, DeadlineExceeded)


def test_a_body_that_returns_after_its_deadline_fails_all_the_same(begin):
    @workflow
    async def body() -> str:
        try:
            await double(1)
        except asyncio.CancelledError:
            return "too late"
        return ""

    drive = begin(body)
    drive.cancel(deadline=True)
    assert isinstance(drive.check().error, DeadlineExceeded)


def test_a_deadline_after_a_cancel_does_not_interrupt_the_cleanup(begin):
    drive = begin(tidy)
    drive.cancel()
    drive.cancel(deadline=True)
    assert drive.open == ["clean_up"]
    assert drive.finish().check().notes == ["cleaning", "clean"]


def test_a_cancel_after_the_deadline_does_not_interrupt_the_cleanup(begin):
    drive = begin(tidy)
    drive.cancel(deadline=True)
    drive.cancel()
    assert drive.finish().check().notes == ["cleaning", "clean"]


@workflow(retry=Retry(attempts=None, initial="1s", jitter=0))
async def stubborn() -> None:
    await refuse("card")


def test_a_run_that_fails_before_it_sees_its_cancel_is_not_tried_again(begin):
    drive = begin(stubborn)
    done = drive.take(drive.failed("refuse", ValueError("no")), Cancel(drive.tick()))
    assert done.consumed == 1
    assert (drive.retrying, drive.status) == (None, "failed")


def test_the_same_failure_without_a_cancel_is_tried_again(begin):
    drive = begin(stubborn)
    drive.fail("refuse", ValueError("no"))
    assert drive.retrying is not None


@pytest.mark.parametrize(
    ("reason", "told"),
    [("sold out", "it was cancelled (sold out) as it failed"), (None, "it was cancelled as it failed")],
)
def test_a_cancel_in_the_same_turn_as_a_failure_is_noted_on_the_error(begin, reason, told):
    drive = begin(stubborn)
    drive.take(drive.failed("refuse", ValueError("no")), Cancel(drive.tick(), reason))
    assert told in "\n".join(drive.error.__notes__)
