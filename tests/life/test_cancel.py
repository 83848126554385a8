"""Cancels: one entry, one CancelledError in the body, cleanup that may await, and an end that is final."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, AsyncRun, RunCancelled, RunStatus, Worker, blocking, step, workflow
from holdfast.define import Workflow
from holdfast.testing import Environment, assert_durable
from tests.life.waiting import kinds, until_waiting

cleaned: dict[str, str] = {}


@step
async def clean(what: str) -> str:
    cleaned[holdfast.current_step().idempotency_key] = what
    return what


@step
def clean_up(what: str) -> str:
    cleaned[holdfast.current_step().idempotency_key] = what
    return what


@workflow
async def tidy() -> None:
    try:
        await holdfast.wait_for_signal("never")
    finally:
        await clean("the table")


@workflow
def tidy_in_a_plain_body() -> None:
    try:
        blocking.wait_for_signal("never")
    finally:
        clean_up("the table")


@workflow
async def stubborn() -> str:
    try:
        await holdfast.wait_for_signal("never")
    except asyncio.CancelledError:
        return "all the same"
    return "signalled"


@workflow
async def shielded() -> str:
    with holdfast.shield():
        await holdfast.sleep("1h")
        await clean("inside")
    await holdfast.sleep("1h")
    return "never"


@workflow
async def twice_tidy() -> None:
    try:
        await holdfast.wait_for_signal("never")
    finally:
        await holdfast.sleep("1h")
        await clean("after an hour")


@workflow
async def sleeping() -> None:
    await holdfast.sleep("30d")


@workflow
async def hoping() -> None:
    await holdfast.wait_for_event("never")


@workflow
async def hooked() -> None:
    await holdfast.hook().wait()


@workflow
async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(holdfast.sleep("1d"))
        group.create_task(holdfast.wait_for_signal("never"))


@workflow
async def on_an_event() -> None:
    await asyncio.Event().wait()


@workflow
def blocked() -> None:
    blocking.sleep("30d")


async def cancelled(env: Environment, body: Workflow[[], Any]) -> AsyncRun[Any]:
    """A run of it that was cancelled while it waited."""
    run = await env.client.start(body)
    await env.until_waiting(run)
    await run.cancel()
    return run


@pytest.mark.parametrize("waiting", [sleeping, hoping, hooked, in_a_group, on_an_event, blocked, tidy])
async def test_a_cancel_wakes_every_wait(waiting):
    async with Environment(waiting) as env:
        run = await env.client.start(waiting)
        await env.until_waiting(run)
        begun = env.now
        assert await run.cancel()
        assert await run.wait() is RunStatus.CANCELLED
        assert env.now == begun


async def test_the_result_of_a_cancelled_run_is_run_cancelled():
    async with Environment(sleeping) as env:
        run = await env.client.start(sleeping)
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result()


async def test_a_cancel_wakes_a_run_between_two_attempts_of_a_step():
    @step(retry=holdfast.Retry(attempts=10, initial="1d", jitter=0))
    async def failing() -> None:
        raise ValueError

    @workflow
    async def trying() -> None:
        await failing()

    async with Environment(trying) as env:
        run = await cancelled(env, trying)
        assert await run.wait() is RunStatus.CANCELLED
        assert len(env.calls(failing)) == 1


@pytest.mark.parametrize("tidies", [tidy, tidy_in_a_plain_body])
async def test_a_finally_may_call_steps(tidies):
    async with Environment(tidies) as env:
        run = await cancelled(env, tidies)
        assert await run.wait() is RunStatus.CANCELLED
        assert len(env.calls(clean)) + len(env.calls(clean_up)) == 1


async def test_a_finally_may_sleep():
    async with Environment(twice_tidy) as env:
        run = await env.client.start(twice_tidy)
        await env.until_waiting(run)
        begun = env.now
        await run.cancel()
        assert await run.wait() is RunStatus.CANCELLED
        assert (env.now - begun).total_seconds() == 3600
        assert len(env.calls(clean)) == 1


async def test_a_repeated_cancel_changes_nothing():
    async with Environment(twice_tidy) as env:
        run = await cancelled(env, twice_tidy)
        await env.skip("30m")
        await run.cancel()
        await run.cancel()
        assert await run.wait() is RunStatus.CANCELLED
        assert len(env.calls(clean)) == 1
        assert (await kinds(env.client, run.id)).count("cancel") == 1


async def test_a_body_that_returns_after_a_cancel_has_completed():
    async with Environment(stubborn) as env:
        run = await cancelled(env, stubborn)
        assert await run.result() == "all the same"


async def test_an_exception_in_the_cleanup_fails_the_run():
    @workflow
    async def clumsy() -> None:
        try:
            await holdfast.sleep("1d")
        finally:
            raise ValueError("dropped it")

    async with Environment(clumsy) as env:
        run = await cancelled(env, clumsy)
        assert await run.wait() is RunStatus.FAILED


async def test_a_timeout_around_a_cancelled_wait_does_not_take_it_for_its_own():
    @workflow
    async def timed() -> str:
        try:
            async with asyncio.timeout(3600):
                await holdfast.wait_for_signal("never")
        except TimeoutError:
            return "timed out"
        return "signalled"

    async with Environment(timed) as env:
        run = await cancelled(env, timed)
        assert await run.wait() is RunStatus.CANCELLED


async def test_a_cancelled_wait_leaves_its_signal_to_the_cleanup():
    @workflow
    async def late_reader() -> Any:
        try:
            await holdfast.wait_for_signal("go", match={"never": True})
        except asyncio.CancelledError:
            return await holdfast.wait_for_signal("go")

    async with Environment(late_reader) as env:
        run = await env.client.start(late_reader)
        await run.signal("go", 1)
        await env.until_waiting(run)
        await run.cancel()
        assert await run.result() == 1


async def test_a_shield_holds_a_cancel_back_until_its_block_has_ended():
    async with Environment(shielded) as env:
        run = await env.client.start(shielded)
        await env.until_waiting(run)
        begun = env.now
        await run.cancel()
        assert await run.wait() is RunStatus.CANCELLED
        assert (env.now - begun).total_seconds() == 3600
        assert len(env.calls(clean)) == 1


async def test_a_shield_in_one_task_holds_a_cancel_back_for_the_whole_run():
    @workflow
    async def two() -> None:
        async def careful() -> None:
            with holdfast.shield():
                await holdfast.sleep("1h")

        task = asyncio.create_task(careful())
        await holdfast.sleep("30m")
        await clean("half way")
        await task
        await holdfast.sleep("1h")

    async with Environment(two) as env:
        run = await env.client.start(two)
        await env.until_waiting(run)
        begun = env.now
        await run.cancel()
        assert await run.wait() is RunStatus.CANCELLED
        assert ((env.now - begun).total_seconds(), len(env.calls(clean))) == (3600, 1)


async def test_a_shield_works_in_a_plain_body():
    @workflow
    def plain() -> None:
        with holdfast.shield():
            blocking.sleep("1h")
            clean_up("inside")
        blocking.sleep("1h")

    async with Environment(plain) as env:
        run = await cancelled(env, plain)
        assert await run.wait() is RunStatus.CANCELLED
        assert len(env.calls(clean_up)) == 1


async def test_a_run_that_never_began_is_cancelled_without_a_worker(url):
    async with AsyncClient(url) as client:
        run = await client.start(tidy, delay="1h")
        assert await run.cancel()
        assert (await run.refresh()).status is RunStatus.CANCELLED


async def test_a_cancel_leaves_an_ended_run_as_it_is():
    @workflow
    async def soon() -> int:
        return 1

    async with Environment(soon) as env:
        run = await env.client.start(soon)
        await run.result()
        assert not await run.cancel()
        assert await run.result() == 1


async def test_a_forced_cancel_ends_the_run_at_once_and_lists_what_was_skipped():
    async with Environment(twice_tidy) as env:
        run = await env.client.start(twice_tidy)
        await env.until_waiting(run)
        answer = await run.cancel(force=True)
        assert (await run.refresh()).status is RunStatus.CANCELLED
        assert answer.skipped
        assert env.calls(clean) == []


async def test_a_forced_cancel_ends_a_run_that_will_not_be_cancelled():
    async with Environment(shielded) as env:
        run = await env.client.start(shielded)
        await env.until_waiting(run)
        await run.cancel(force=True)
        assert (await run.refresh()).status is RunStatus.CANCELLED


async def test_the_reason_of_a_cancel_is_shown_by_explain():
    async with Environment(tidy) as env:
        run = await env.client.start(tidy)
        await env.until_waiting(run)
        await run.cancel(reason="the shop has closed")
        await run.wait()
        assert "the shop has closed" in str(await env.client.explain(run.id))


@pytest.mark.parametrize("waiting", [tidy, tidy_in_a_plain_body, twice_tidy, shielded, in_a_group])
def test_a_cancel_survives_a_crash_at_every_commit(waiting):
    async def drive(env: Any, run: Any) -> None:
        await env.until_waiting(run)
        await run.cancel()

    assert_durable(waiting, drive=drive, effects=cleaned)


async def test_a_cancel_of_a_run_without_a_worker_is_carried_out_by_the_next(url):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[tidy]):
            run = await client.start(tidy)
            await until_waiting(run)
        cleaned.clear()
        await run.cancel()
        async with Worker(client, workflows=[tidy]):
            assert await run.wait(timeout=30) is RunStatus.CANCELLED
        assert list(cleaned.values()) == ["the table"]
