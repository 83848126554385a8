"""Cancel, deadline and retry, with a real worker."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast import DeadlineExceeded, Retry, RunCancelled, RunFailed, current_step, sleep, step, workflow
from tests.worker.stage import stage, until

ONCE = Retry(attempts=1)
PATIENCE = "20s"


async def test_a_cancel_wakes_a_long_sleep_at_once(database_url):
    @workflow
    async def body() -> None:
        await sleep("365d")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"


async def test_a_cancel_wakes_a_parked_run(database_url):
    @workflow
    async def body() -> None:
        await sleep("365d")

    async with stage(database_url, body, keep_parked=0) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"


@pytest.mark.parametrize("keep_parked", [0, 1_000])
async def test_a_cancel_runs_the_steps_in_finally(database_url, keep_parked):
    effects: list[str] = []

    @step
    async def refund() -> None:
        effects.append("refunded")

    @workflow
    async def body() -> None:
        try:
            await sleep("365d")
        finally:
            await refund()

    async with stage(database_url, body, keep_parked=keep_parked) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"
    assert effects == ["refunded"]


async def test_result_raises_run_cancelled_with_the_reason(database_url):
    @workflow
    async def body() -> None:
        await sleep("365d")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        await run.cancel(reason="the customer changed his mind")
        with pytest.raises(RunCancelled, match="changed his mind"):
            await run.result(PATIENCE)


async def test_a_pending_run_is_cancelled_without_a_worker(database_url):
    @workflow
    async def body() -> None:
        pass

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"


async def test_a_run_cancelled_before_it_began_never_begins(database_url):
    lives: list[int] = []

    @workflow
    async def body() -> None:
        lives.append(1)

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await run.cancel()
        async with on.worker(body):
            await (await on.client.start(body)).result(PATIENCE)
    assert lives == [1]


async def test_a_cancel_reaches_an_async_step_in_flight(database_url):
    seen: list[str] = []

    @step
    async def slow() -> None:
        seen.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("left")

    @workflow
    async def body() -> None:
        await slow()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: seen)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"
        await until(lambda: seen == ["began", "left"])


async def test_a_cancel_is_told_to_a_def_step_in_flight(database_url):
    began, told = threading.Event(), threading.Event()

    @step
    def slow() -> None:
        me = current_step()
        began.set()
        for _ in range(2_000):
            if me.cancelled:
                told.set()
                return
            threading.Event().wait(0.01)

    @workflow
    async def body() -> None:
        slow()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(began.is_set)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"
        await until(told.is_set)


async def test_a_cancel_ends_a_wait_for_a_retry(database_url):
    attempts: list[int] = []

    @step(retry=Retry(attempts=2, initial="1d"))
    async def flaky() -> None:
        attempts.append(1)
        raise ValueError

    @workflow
    async def body() -> None:
        await flaky()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: attempts)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"
    assert attempts == [1]


async def test_cancelling_twice_runs_the_cleanup_once(database_url):
    effects: list[str] = []
    go_on = asyncio.Event()

    @step
    async def refund() -> None:
        effects.append("refunded")
        await go_on.wait()

    @workflow
    async def body() -> None:
        try:
            await sleep("365d")
        finally:
            await refund()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        await run.cancel()
        await until(lambda: effects)
        await run.cancel()
        go_on.set()
        assert await run.wait(PATIENCE) == "cancelled"
        assert (await on.kinds(run)).count("cancel") == 1
    assert effects == ["refunded"]


async def test_cancelling_an_ended_run_changes_nothing(database_url):
    @workflow
    async def body() -> int:
        return 1

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await run.result(PATIENCE)
        assert not await run.cancel()
        assert await (await on.client.get_run(body, id=run.id)).result(PATIENCE) == 1


async def test_a_forced_cancel_ends_a_run_that_will_not_end(database_url):
    seen: list[int] = []

    @step
    async def slow() -> None:
        seen.append(1)
        await asyncio.Event().wait()

    @workflow
    async def body() -> None:
        while True:
            try:
                await slow()
            except asyncio.CancelledError:
                pass

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: seen)
        await run.cancel(force=True)
        assert await run.wait(PATIENCE) == "cancelled"


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

    @step
    async def refund() -> None:
        effects.append("refunded")

    @workflow
    async def body() -> None:
        try:
            await sleep("365d")
        finally:
            await refund()

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
