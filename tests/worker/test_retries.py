"""Retries of steps: durable, counted, on time, and as the policy says."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest

from holdfast import FatalError, Retry, RetryAfter, RunFailed, current_step, sleep, step, workflow
from holdfast.model import StepRetrying
from tests.worker.stage import PATIENCE, Stage, stage, until

AT_ONCE = Retry(attempts=3, initial=0, jitter=0)


class Flaky(Exception):
    """An error worth another try."""


class Broken(Flaky):
    """An error not worth another try."""


async def finish(on: Stage, run, *, skip: str = "1h"):
    """Let time pass until the run has ended."""

    async def is_ended() -> bool:
        on.skip(skip)
        return (await on.record(run)).status.is_final

    await until(is_ended)
    return run


async def delays(on: Stage, run) -> list[float]:
    """The delays between attempts, in seconds, as the journal has them."""
    return [
        (entry.retry_at - entry.at) / 1_000_000 for entry in await on.entries(run) if isinstance(entry, StepRetrying)
    ]


def failing(retry: Retry | None, error: BaseException | type[BaseException] = Flaky):
    """A workflow whose only step fails always, and the attempts it had."""
    attempts: list[int] = []

    @step(retry=retry)
    async def try_it() -> None:
        attempts.append(current_step().attempt)
        raise error

    @workflow(name="failing")
    async def body() -> None:
        await try_it()

    return body, attempts


async def test_a_step_is_tried_again_until_it_succeeds(database_url):
    attempts: list[int] = []

    @step(retry=AT_ONCE)
    async def flaky() -> str:
        attempts.append(current_step().attempt)
        if len(attempts) < 3:
            raise Flaky
        return "at last"

    @workflow
    async def body() -> str:
        return await flaky()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        assert await run.result() == "at last"
    assert attempts == [1, 2, 3]


async def test_a_def_step_is_tried_again_too(database_url):
    attempts: list[int] = []

    @step(retry=AT_ONCE)
    def flaky() -> str:
        attempts.append(current_step().attempt)
        if len(attempts) < 2:
            raise Flaky
        return "at last"

    @workflow
    def body() -> str:
        return flaky()

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result() == "at last"
    assert attempts == [1, 2]


async def test_by_default_a_step_has_three_attempts(database_url):
    body, attempts = failing(None)
    async with stage(database_url, body) as on:
        await finish(on, await on.client.start(body))
    assert attempts == [1, 2, 3]


async def test_by_default_the_delay_doubles_within_its_jitter(database_url):
    body, _ = failing(None)
    async with stage(database_url, body) as on:
        run = await finish(on, await on.client.start(body))
        first, second = await delays(on, run)
    assert 0.8 <= first <= 1.2
    assert 1.6 <= second <= 2.4


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        (Retry(attempts=4, initial="2s", jitter=0, kind="fixed"), [2, 2, 2]),
        (Retry(attempts=4, initial="2s", jitter=0, kind="linear"), [2, 4, 6]),
        (Retry(attempts=4, initial="2s", jitter=0, factor=3), [2, 6, 18]),
        (Retry(attempts=5, initial="2s", jitter=0, max="5s"), [2, 4, 5, 5]),
        (Retry(attempts=1), []),
    ],
    ids=["fixed", "linear", "exponential", "max", "one"],
)
async def test_the_delays_are_those_of_the_policy(database_url, retry, expected):
    body, _ = failing(retry)
    async with stage(database_url, body) as on:
        run = await finish(on, await on.client.start(body))
        assert await delays(on, run) == expected


async def test_jitter_spreads_the_delays(database_url):
    body, _ = failing(Retry(attempts=2, initial="10s", jitter=0.5))
    async with stage(database_url, body) as on:
        runs = await on.client.start_many(body, [()] * 20)
        found = {one for run in runs for one in await delays(on, await finish(on, run))}
    assert len(found) > 10
    assert all(5 <= one <= 15 for one in found)


async def test_no_attempt_comes_before_its_time(database_url):
    body, attempts = failing(Retry(attempts=2, initial="1h", jitter=0))
    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: attempts)
        await on.until_waiting(run)
        on.skip("59m")
        assert await on.until_waiting(run)
        assert attempts == [1]
        on.skip("2m")
        await run.wait(PATIENCE)
    assert attempts == [1, 2]


async def test_only_the_errors_listed_in_on_are_tried_again(database_url):
    body, attempts = failing(Retry(attempts=3, initial=0, on=(ValueError,)))
    async with stage(database_url, body) as on:
        await (await on.client.start(body)).wait(PATIENCE)
    assert attempts == [1]


async def test_the_errors_listed_in_unless_are_not_tried_again(database_url):
    body, attempts = failing(Retry(attempts=3, initial=0, on=(Flaky,), unless=(Broken,)), Broken)
    async with stage(database_url, body) as on:
        await (await on.client.start(body)).wait(PATIENCE)
    assert attempts == [1]


async def test_a_fatal_error_is_never_tried_again(database_url):
    body, attempts = failing(Retry(attempts=None, initial=0), FatalError("enough"))
    async with stage(database_url, body) as on:
        await (await on.client.start(body)).wait(PATIENCE)
    assert attempts == [1]


async def test_retry_after_brings_its_own_delay(database_url):
    body, _ = failing(Retry(attempts=2, initial="1s"), RetryAfter("17s"))
    async with stage(database_url, body) as on:
        run = await finish(on, await on.client.start(body))
        assert await delays(on, run) == [17]


async def test_retry_after_counts_as_an_attempt(database_url):
    body, attempts = failing(Retry(attempts=3), RetryAfter(0))
    async with stage(database_url, body) as on:
        await (await on.client.start(body)).wait(PATIENCE)
    assert attempts == [1, 2, 3]


async def test_the_time_given_by_within_ends_the_tries(database_url):
    body, attempts = failing(Retry(attempts=None, initial="20m", kind="fixed", jitter=0, within="1h"))
    async with stage(database_url, body) as on:
        run = await finish(on, await on.client.start(body), skip="21m")
    assert run.status == "failed"
    assert 1 < len(attempts) <= 4


async def test_within_does_not_count_the_time_in_line_for_a_thread(database_url):
    begun, is_free = threading.Event(), threading.Event()
    attempts: list[int] = []

    @step
    def hold() -> None:
        begun.set()
        is_free.wait(PATIENCE)

    @step(retry=Retry(attempts=2, initial=0, jitter=0, within="1h"))
    def flaky() -> str:
        attempts.append(current_step().attempt)
        if len(attempts) < 2:
            raise Flaky
        return "at last"

    @workflow
    def body() -> str:
        first, second = hold.start(), flaky.start()
        first.result()
        return second.result()

    async with stage(database_url, body, threads=1) as on:
        run = await on.client.start(body)
        await until(begun.is_set)
        on.skip("2h")
        is_free.set()
        assert await run.result(PATIENCE) == "at last"


async def test_a_policy_without_a_number_of_attempts_tries_without_end(database_url):
    attempts: list[int] = []

    @step(retry=Retry(attempts=None, initial=0, jitter=0))
    async def flaky() -> int:
        attempts.append(current_step().attempt)
        if len(attempts) < 25:
            raise Flaky
        return len(attempts)

    @workflow
    async def body() -> int:
        return await flaky()

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result() == 25


async def test_attempts_are_counted_across_workers(database_url):
    body, attempts = failing(Retry(attempts=2, initial="1h", max="1h", jitter=0))
    async with stage(database_url) as on:
        run = await on.client.start(body)
        async with on.worker(body):
            await until(lambda: attempts)
            await on.until_waiting(run)
        async with on.worker(body):
            await on.until_waiting(run)
            on.skip("2h")
            assert await run.wait(PATIENCE) == "failed"
    assert attempts == [1, 2]


async def test_another_worker_does_not_try_again_before_the_time(database_url):
    body, attempts = failing(Retry(attempts=2, initial="1h", max="1h", jitter=0))
    async with stage(database_url) as on:
        run = await on.client.start(body)
        async with on.worker(body):
            await until(lambda: attempts)
            await on.until_waiting(run)
        on.skip("30m")
        async with on.worker(body):
            await on.until_waiting(run)
        assert attempts == [1]


async def test_sleeps_do_not_use_up_attempts(database_url):
    """Only errors use up attempts: a run that is claimed again and again for its timers keeps all of them."""

    @step(retry=Retry(attempts=1))
    async def once() -> int:
        return current_step().attempt

    @workflow(max_crashes=1)
    async def body() -> int:
        for _ in range(5):
            await sleep("1d")
        return await once()

    async with stage(database_url, body, keep_parked=0) as on:
        run = await finish(on, await on.client.start(body), skip="12h")
        assert await run.result() == 1


async def test_the_last_error_is_raised_in_the_body_as_its_own_class(database_url):
    @step(retry=AT_ONCE)
    async def fail() -> None:
        raise Flaky("three times")

    @workflow
    async def body() -> str:
        try:
            await fail()
        except Flaky as error:
            return str(error)
        return ""

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result() == "three times"


async def test_the_error_says_which_step_and_attempt_it_was(database_url):
    body, _ = failing(AT_ONCE, Flaky("why"))
    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        with pytest.raises(RunFailed) as caught:
            await run.result()
    notes = "\n".join(caught.value.__cause__.__notes__)
    assert "try_it" in notes
    assert "attempt 3" in notes


async def test_the_error_keeps_the_text_of_its_traceback(database_url):
    body, _ = failing(Retry(attempts=1), Flaky("why"))
    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        with pytest.raises(RunFailed) as caught:
            await run.result()
    assert "raise error" in "\n".join(caught.value.__cause__.__notes__)


async def test_options_change_the_policy_for_one_call(database_url):
    attempts: list[int] = []

    @step(retry=Retry(attempts=1))
    async def fail() -> None:
        attempts.append(current_step().attempt)
        raise Flaky

    @workflow
    async def body() -> None:
        await fail.options(retry=AT_ONCE)()

    async with stage(database_url, body) as on:
        await (await on.client.start(body)).wait(PATIENCE)
    assert attempts == [1, 2, 3]


async def test_siblings_go_on_while_a_step_waits_for_its_retry(database_url):
    attempts: list[int] = []

    @step(retry=Retry(attempts=2, initial="1h", jitter=0))
    async def flaky() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise Flaky
        return "late"

    order: list[str] = []

    @step
    async def quick(name: str) -> None:
        order.append(name)

    @workflow
    async def body() -> str:
        async def chain() -> None:
            for name in "abc":
                await quick(name)

        found, _ = await asyncio.gather(flaky(), chain())
        return found

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: order == ["a", "b", "c"])
        assert len(attempts) == 1
        on.skip("2h")
        assert await run.result(PATIENCE) == "late"


async def test_the_delay_of_a_retry_is_not_drawn_from_the_programs_own_random_numbers(database_url):
    body, attempts = failing(Retry(attempts=2, initial=0.01, jitter=0.5))
    random.seed(7)
    before = random.getstate()
    async with stage(database_url, body) as on:
        await finish(on, await on.client.start(body))
    assert attempts == [1, 2]
    assert random.getstate() == before
