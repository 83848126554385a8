"""Deadlines with a real worker: while a step is in flight, while nothing is, and while the body cleans up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import DeadlineExceeded, Retry, RunFailed, sleep, step, workflow
from tests.worker.samples import refunding
from tests.worker.stage import PATIENCE, stage, until


async def test_a_deadline_cancels_a_step_in_flight(database_url):
    seen: list[str] = []

    @step
    async def slow() -> None:
        seen.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("left")

    @workflow(deadline="1h")
    async def body() -> None:
        await slow()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: seen)
        on.skip("2h")
        assert await run.wait(PATIENCE) == "failed"
        await until(lambda: seen == ["began", "left"])


async def test_a_declared_deadline_holds_for_a_run_started_by_name(database_url):
    @workflow(name="timed", deadline="1h")
    async def timed() -> None:
        await sleep("2h")

    async with stage(database_url, timed) as on:
        run = await on.client.start("timed")
        await on.until_waiting(run)
        on.skip("61m")
        assert await run.wait(PATIENCE) == "failed"


@pytest.mark.parametrize("options", [{"delay": "1d"}, {}])
async def test_a_run_that_has_not_begun_at_its_deadline_fails_and_never_begins(database_url, options):
    seen: list[str] = []

    @workflow(name="late")
    async def late() -> None:
        seen.append("began")

    async with stage(database_url) as on:
        run = await on.client.start(late, deadline="1h", **options)
        if not options:
            on.skip("2h")
        async with on.worker(late):
            on.skip("2h")
            with pytest.raises(RunFailed) as failed:
                await run.result(PATIENCE)
        assert isinstance(failed.value.__cause__, DeadlineExceeded)
        assert "had not begun when its deadline" in str(failed.value.__cause__)
        assert seen == []
        assert await on.kinds(run) == ["ended"]


async def test_no_step_begins_after_a_deadline(database_url):
    begun: list[str] = []

    @step
    async def first() -> None:
        # The worker takes the result in before its alarm can ring.
        on.clock.skipped += 7_200_000_000

    @step
    async def second() -> None:
        begun.append("second")

    @workflow(deadline="1h")
    async def body() -> None:
        await first()
        await second()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        assert await run.wait(PATIENCE) == "failed"
        assert begun == []


async def test_no_step_begins_whose_turn_was_being_committed_when_the_deadline_came(database_url, monkeypatch):
    begun: list[str] = []

    @step
    async def first() -> None:
        begun.append("first")

    @step
    async def second() -> None:
        begun.append("second")

    @workflow(deadline="1h")
    async def body() -> None:
        await first()
        await second()

    async with stage(database_url, body) as on:
        commit = on.store.commit_turns

        async def slow(*turns: Any, **given: Any) -> Any:
            answers = await commit(*turns, **given)
            on.skip("2h")
            return answers

        monkeypatch.setattr(on.store, "commit_turns", slow)
        run = await on.client.start(body)
        assert await run.wait(PATIENCE) == "failed"
        assert begun == ["first"]


async def test_a_deadline_ends_a_run_as_failed(database_url):
    @workflow(deadline="1h")
    async def body() -> None:
        await sleep("365d")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        on.skip("2h")
        with pytest.raises(RunFailed) as caught:
            await run.result(PATIENCE)
    assert isinstance(caught.value.__cause__, DeadlineExceeded)


@pytest.mark.parametrize("keep_parked", [0, 1_000])
async def test_a_deadline_lets_the_cleanup_run(database_url, keep_parked):
    effects: list[str] = []
    body = refunding(effects)
    async with stage(database_url, body, keep_parked=keep_parked) as on:
        run = await on.client.start(body, deadline="1h")
        await on.until_waiting(run)
        on.skip("2h")
        assert await run.wait(PATIENCE) == "failed"
    assert effects == ["refunded"]


async def test_a_run_that_ends_before_its_deadline_completes(database_url):
    @workflow(deadline="1h")
    async def body() -> int:
        await sleep("30m")
        return 1

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        on.skip("31m")
        assert await run.result(PATIENCE) == 1


async def test_a_deadline_cancels_a_wait_for_a_retry_beside_a_step_in_flight(database_url):
    began: list[str] = []

    @step(retry=Retry(attempts=2, initial="1d"))
    async def flaky() -> None:
        began.append("flaky")
        raise ValueError

    @step
    async def slow() -> None:
        began.append("slow")
        await asyncio.Event().wait()

    @workflow(deadline="1h")
    async def body() -> None:
        await asyncio.gather(flaky(), slow())

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: len(began) == 2)
        on.skip("2h")
        assert await run.wait(PATIENCE) == "failed"
