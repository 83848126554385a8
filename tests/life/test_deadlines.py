"""Deadlines: a run has so much time, through sleeps, downtime and retries, and then it fails cleanly."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, DeadlineExceeded, Retry, RunFailed, RunStatus, Worker, step, workflow
from holdfast.testing import Environment, assert_durable
from tests.life.waiting import waiting_for_its_deadline

cleaned: dict[str, str] = {}


@step
async def clean(what: str) -> None:
    cleaned[holdfast.current_step().idempotency_key] = what


@workflow(deadline="1h")
async def in_an_hour() -> None:
    try:
        await holdfast.wait_for_signal("never")
    finally:
        await clean("the table")


@workflow
async def for_ever() -> None:
    await holdfast.wait_for_signal("never")


@workflow
async def quick() -> str:
    await holdfast.sleep("10m")
    return "done"


async def cause(run: Any) -> BaseException | None:
    with pytest.raises(RunFailed) as failed:
        await run.result()
    return failed.value.__cause__


async def test_a_run_past_its_deadline_fails_with_deadline_exceeded():
    async with Environment(in_an_hour) as env:
        begun = env.now
        run = await env.client.start(in_an_hour)
        assert isinstance(await cause(run), DeadlineExceeded)
        assert env.now - begun == timedelta(hours=1)


async def test_cleanup_is_exempt_from_the_deadline():
    @workflow(deadline="1h")
    async def slow_to_leave() -> None:
        try:
            await holdfast.wait_for_signal("never")
        finally:
            await holdfast.sleep("2h")
            await clean("the table")

    async with Environment(slow_to_leave) as env:
        assert isinstance(await cause(await env.client.start(slow_to_leave)), DeadlineExceeded)
        assert len(env.calls(clean)) == 1


async def test_a_run_that_ends_in_time_does_not_mind_its_deadline():
    async with Environment(quick) as env:
        assert await (await env.client.start(quick, deadline="1h")).result() == "done"


async def test_a_deadline_is_given_as_a_moment_too():
    async with Environment(for_ever) as env:
        moment = env.now + timedelta(hours=3)
        assert isinstance(await cause(await env.client.start(for_ever, deadline=moment)), DeadlineExceeded)
        assert env.now == moment


async def test_a_deadline_given_at_the_start_overrides_the_workflows_own():
    async with Environment(in_an_hour) as env:
        begun = env.now
        await (await env.client.start(in_an_hour, deadline="5m")).wait()
        assert env.now - begun == timedelta(minutes=5)


async def test_the_body_knows_its_deadline():
    @workflow(deadline="1h")
    async def knows() -> bool:
        deadline = holdfast.current_run().deadline
        return deadline is not None and deadline > holdfast.now()

    async with Environment(knows) as env:
        assert await (await env.client.start(knows)).result() is True


async def test_a_body_that_returns_after_its_deadline_has_failed_all_the_same():
    @workflow(deadline="1h")
    async def stubborn() -> str:
        try:
            await holdfast.wait_for_signal("never")
        except asyncio.CancelledError:
            pass
        return "all the same"

    async with Environment(stubborn) as env:
        run = await env.client.start(stubborn)
        assert isinstance(await cause(run), DeadlineExceeded)


async def test_a_deadline_is_not_moved_by_the_retries_of_a_step():
    @step(retry=Retry(attempts=None, initial="25m", max="25m", factor=1, jitter=0))
    async def failing() -> None:
        raise ConnectionError

    @workflow(deadline="1h")
    async def trying() -> None:
        await failing()

    async with Environment(trying) as env:
        begun = env.now
        assert isinstance(await cause(await env.client.start(trying)), DeadlineExceeded)
        assert env.now - begun == timedelta(hours=1)


async def test_a_deadline_is_not_moved_by_the_retries_of_a_workflow():
    @step(retry=Retry(attempts=1))
    async def failing() -> None:
        raise ConnectionError

    @workflow(deadline="1h", retry=Retry(attempts=None, initial="25m", max="25m", factor=1, jitter=0))
    async def trying() -> None:
        await failing()

    async with Environment(trying) as env:
        begun = env.now
        assert isinstance(await cause(await env.client.start(trying)), DeadlineExceeded)
        assert env.now - begun == timedelta(hours=1)


async def test_a_run_whose_deadline_passes_before_it_begins_never_begins():
    async with Environment(in_an_hour) as env:
        run = await env.client.start(in_an_hour, delay="2h", deadline="1h")
        assert isinstance(await cause(run), DeadlineExceeded)
        assert env.calls(clean) == []


async def test_a_child_has_no_more_time_than_its_parent():
    @workflow(deadline="1h")
    async def parent() -> None:
        await for_ever.options(id="the-child")()

    async with Environment([parent, for_ever]) as env:
        begun = env.now
        await (await env.client.start(parent)).wait()
        child = await env.client.get_run("the-child")
        assert (await child.wait()).is_final
        assert env.now - begun == timedelta(hours=1)


async def test_continuing_as_new_does_not_extend_the_deadline():
    @workflow(deadline="1h")
    async def again(number: int) -> None:
        await holdfast.sleep("25m")
        again.continue_as_new(number + 1)

    async with Environment(again) as env:
        begun = env.now
        run = await env.client.start(again, 0)
        assert isinstance(await cause(run), DeadlineExceeded)
        assert env.now - begun == timedelta(hours=1)


async def test_a_shield_holds_a_deadline_back():
    @workflow(deadline="1h")
    async def careful() -> None:
        with holdfast.shield():
            await holdfast.sleep("2h")
            await clean("inside")
        await holdfast.sleep("1h")

    async with Environment(careful) as env:
        assert isinstance(await cause(await env.client.start(careful)), DeadlineExceeded)
        assert len(env.calls(clean)) == 1


@pytest.mark.parametrize("bad", ["soon", -5, datetime(2030, 1, 1)])
async def test_an_invalid_deadline_is_refused_at_the_start(bad):
    async with Environment(for_ever) as env:
        with pytest.raises((holdfast.DefinitionError, ValueError)):
            await env.client.start(for_ever, deadline=bad)
        assert [run async for run in env.client.runs()] == []


def test_a_deadline_survives_a_crash_at_every_commit():
    assert_durable(in_an_hour, effects=cleaned)


async def test_a_deadline_passes_while_no_worker_lives(url):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[for_ever]):
            run = await waiting_for_its_deadline(client, for_ever)
        async with Worker(client, workflows=[for_ever]):
            assert await run.wait(timeout=30) is RunStatus.FAILED


async def test_a_run_that_never_began_fails_at_its_deadline_on_every_store(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[in_an_hour]):
        run = await client.start(in_an_hour, delay="1h", deadline=0.1)
        assert await run.wait(timeout=30) is RunStatus.FAILED


@pytest.mark.parametrize("is_before_steps", [True, False])
async def test_a_deadline_in_the_pause_of_a_workflow_s_retry_is_deadline_exceeded(is_before_steps):
    """Also if the body would fail again by itself, at once."""

    @workflow(deadline="1h", retry=Retry(attempts=None, initial="25m", max="25m", factor=1, jitter=0))
    async def trying() -> None:
        if is_before_steps:
            raise ValueError("no")
        await clean("the table")
        raise ValueError("no")

    async with Environment(trying) as env:
        begun = env.now
        failure = await cause(await env.client.start(trying))
        assert isinstance(failure, DeadlineExceeded)
        assert isinstance(failure.__cause__, ValueError)
        assert env.now - begun == timedelta(hours=1)


async def test_deadline_exceeded_in_a_pause_has_the_failure_of_the_last_try_that_got_somewhere_as_its_cause():
    @step(retry=Retry(attempts=1))
    async def failing() -> None:
        raise ValueError("no")

    @workflow(deadline="1h", retry=Retry(attempts=None, initial="25m", max="25m", factor=1, jitter=0))
    async def trying() -> None:
        await failing()

    async with Environment(trying) as env:
        failure = await cause(await env.client.start(trying))
        assert isinstance(failure, DeadlineExceeded)
        assert isinstance(failure.__cause__, ValueError)


async def test_a_run_is_compensated_when_its_deadline_falls_in_the_pause_before_its_next_try():
    undone: list[str] = []

    @step
    async def undo(what: str) -> None:
        undone.append(what)

    @step(compensate=undo)
    async def do() -> str:
        return "done"

    @workflow(deadline="1h", retry=Retry(attempts=None, initial="25m", max="25m", factor=1, jitter=0))
    async def trying() -> None:
        await do()
        raise ValueError("no")

    async with Environment(trying) as env:
        assert isinstance(await cause(await env.client.start(trying)), DeadlineExceeded)
        assert (undone, len(env.calls(do))) == (["done"], 1)


async def test_a_retry_that_is_due_behind_the_deadline_is_not_begun():
    @step(retry=Retry(attempts=2, initial="2h", max="2h", jitter=0))
    async def failing() -> None:
        raise ConnectionError

    @workflow(deadline="1h")
    async def trying() -> None:
        await failing()

    async with Environment(trying) as env:
        begun = env.now
        assert isinstance(await cause(await env.client.start(trying)), DeadlineExceeded)
        assert (env.now - begun, len(env.calls(failing))) == (timedelta(hours=1), 1)


async def test_deadline_exceeded_has_the_last_failure_of_an_open_step_as_its_cause():
    answers = [ValueError("first"), ValueError("last")]

    @step(retry=Retry(attempts=None, initial="40m", max="40m", jitter=0))
    async def failing() -> None:
        raise answers.pop(0)

    @step(retry=Retry(attempts=None, initial="2h", max="2h", jitter=0))
    async def failing_once() -> None:
        raise ValueError("before")

    @workflow(deadline="1h")
    async def trying() -> None:
        await asyncio.gather(failing(), failing_once())

    async with Environment(trying) as env:
        failure = await cause(await env.client.start(trying))
        assert isinstance(failure, DeadlineExceeded)
        assert repr(failure.__cause__) == "ValueError('last')"


async def test_deadline_exceeded_has_a_step_s_failure_rather_than_that_of_an_earlier_try_as_its_cause():
    answers = [KeyError("the first try"), *(ValueError("the second") for _ in range(9))]

    @step(retry=Retry(attempts=None, initial="25m", max="25m", jitter=0, unless=(KeyError,)))
    async def failing() -> None:
        raise answers.pop(0)

    @workflow(deadline="1h", retry=Retry(attempts=None, initial="25m", max="25m", jitter=0))
    async def trying() -> None:
        await failing()

    async with Environment(trying) as env:
        failure = await cause(await env.client.start(trying))
        assert isinstance(failure, DeadlineExceeded)
        assert repr(failure.__cause__) == "ValueError('the second')"


async def test_a_step_sees_the_run_s_deadline_as_its_own_if_that_comes_first():
    @step(timeout="2h")
    async def long() -> datetime | None:
        return holdfast.current_step().deadline

    @step(timeout="1m")
    async def short() -> datetime | None:
        return holdfast.current_step().deadline

    @workflow(deadline="1h")
    async def looking() -> list[datetime | None]:
        return [await long(), await short()]

    async with Environment(looking) as env:
        begun = env.now
        seen = await (await env.client.start(looking)).result()
        assert seen == [begun + timedelta(hours=1), begun + timedelta(minutes=1)]


async def test_a_step_that_cleans_up_does_not_see_the_deadline():
    @step
    async def last() -> None:
        assert holdfast.current_step().deadline is None

    @workflow(deadline="1h")
    async def leaving() -> None:
        try:
            await holdfast.sleep("2h")
        finally:
            await last()

    async with Environment(leaving) as env:
        failure = await cause(await env.client.start(leaving))
        assert isinstance(failure, DeadlineExceeded)
        assert failure.__cause__ is None
