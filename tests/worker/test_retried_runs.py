"""Runs that are tried again, by their workflow's own policy or by hand: what succeeded is kept."""

from __future__ import annotations

import pytest

from holdfast import Retry, RunFailed, sleep, step, workflow
from tests.worker.stage import ONCE, PATIENCE, stage, until


async def test_a_workflows_own_retry_keeps_what_succeeded(database_url):
    effects: list[str] = []

    @step
    async def charge() -> None:
        effects.append("charged")

    @step(retry=ONCE)
    async def ship() -> str:
        effects.append("tried to ship")
        if effects.count("tried to ship") < 3:
            raise ValueError
        return "shipped"

    @workflow(retry=Retry(attempts=3, initial=0))
    async def body() -> str:
        await charge()
        return await ship()

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result(PATIENCE) == "shipped"
    assert effects == ["charged", "tried to ship", "tried to ship", "tried to ship"]


async def test_a_workflows_own_retry_waits_for_its_time_also_with_another_worker(database_url):
    attempts: list[int] = []

    @step(retry=ONCE)
    async def flaky() -> int:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError
        return len(attempts)

    @workflow(retry=Retry(attempts=2, initial="1h", jitter=0))
    async def body() -> int:
        return await flaky()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        async with on.worker(body):
            await until(lambda: attempts)
            await on.until_waiting(run)
        async with on.worker(body):
            await on.until_waiting(run)
            assert attempts == [1]
            on.skip("2h")
            assert await run.result(PATIENCE) == 2


async def test_a_retried_run_is_a_new_one_and_the_old_one_stays(database_url):
    attempts: list[int] = []

    @step(retry=ONCE)
    async def flaky() -> int:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError
        return len(attempts)

    @workflow
    async def body() -> int:
        return await flaky()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await run.wait(PATIENCE)
        again = await on.client.retry(run.id)
        assert await again.result(PATIENCE) == 2
        assert again.id != run.id
        assert (await on.record(run)).status == "failed"


async def test_a_retry_does_not_repeat_what_succeeded(database_url):
    effects: list[str] = []

    @step
    async def charge() -> None:
        effects.append("charged")

    @step(retry=ONCE)
    async def ship() -> None:
        effects.append("tried to ship")
        if effects.count("tried to ship") == 1:
            raise ValueError

    @workflow
    async def body() -> None:
        await charge()
        await ship()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await run.wait(PATIENCE)
        await (await on.client.retry(run.id)).result(PATIENCE)
    assert effects == ["charged", "tried to ship", "tried to ship"]


async def test_a_cancelled_run_goes_on_where_it_stopped_when_it_is_retried(database_url):
    effects: list[str] = []

    @step
    async def charge() -> None:
        effects.append("charged")

    @workflow
    async def body() -> str:
        await charge()
        await sleep("1h")
        return "done"

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        await run.cancel()
        await run.wait(PATIENCE)
        again = await on.client.retry(run.id)
        await on.until_waiting(again)
        on.skip("2h")
        assert await again.result(PATIENCE) == "done"
    assert effects == ["charged"]


async def test_a_run_that_failed_by_a_mistake_in_its_body_goes_on_with_fixed_code(database_url):
    """No step failed, so nothing is cut: the retry goes on behind the last result."""
    effects: list[str] = []

    @step
    async def charge() -> str:
        effects.append("charged")
        return "paid"

    @step
    async def ship() -> str:
        effects.append("shipped")
        return "sent"

    @workflow(name="order")
    async def mistaken() -> str:
        await charge()
        raise KeyError("a mistake")

    @workflow(name="order")
    async def fixed() -> str:
        return await charge() + await ship()

    async with stage(database_url) as on:
        run = await on.client.start(mistaken)
        async with on.worker(mistaken):
            assert await run.wait(PATIENCE) == "failed"
        again = await on.client.retry(run.id)
        async with on.worker(fixed):
            assert await again.result(PATIENCE) == "paidsent"
    assert effects == ["charged", "shipped"]


async def test_a_run_that_fails_by_the_same_mistake_again_fails_again(database_url):
    @step
    async def charge() -> None:
        pass

    @workflow
    async def body() -> None:
        await charge()
        raise KeyError("a mistake")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await run.wait(PATIENCE)
        again = await on.client.retry(run.id)
        assert await again.wait(PATIENCE) == "failed"


async def test_a_workflows_own_retries_of_a_body_that_fails_by_itself_come_to_an_end(database_url):
    @step
    async def charge() -> None:
        pass

    @workflow(retry=Retry(attempts=3, initial=0))
    async def body() -> None:
        await charge()
        raise KeyError("a mistake")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        with pytest.raises(RunFailed):
            await run.result(PATIENCE)
