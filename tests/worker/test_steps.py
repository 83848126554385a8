"""What a worker does with a step: timeouts, odd results, odd exceptions, and what a step may know about itself."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from holdfast import (
    NotEncodable,
    NotInBody,
    PayloadTooLarge,
    Retry,
    RunFailed,
    StepFailed,
    StepTimeout,
    current_run,
    current_step,
    logger,
    now,
    sleep,
    step,
    workflow,
)
from tests.worker.stage import stage, until

ONCE = Retry(attempts=1)
PATIENCE = "20s"


async def failure_of(run) -> BaseException:
    """What the body raised."""
    with pytest.raises(RunFailed) as caught:
        await run.result(PATIENCE)
    assert caught.value.__cause__ is not None
    return caught.value.__cause__


# -- timeouts ----------------------------------------------------------------------------------------------------------


async def test_an_async_step_past_its_timeout_is_cancelled(database_url):
    seen: list[str] = []

    @step(timeout="1h", retry=ONCE)
    async def slow() -> None:
        seen.append("began")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    @workflow
    async def body() -> None:
        await slow()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: seen)
        on.skip("1h")
        assert isinstance(await failure_of(run), StepTimeout)
    assert seen == ["began", "cancelled"]


async def test_a_step_timeout_is_a_timeout_error_in_the_body(database_url):
    began: list[int] = []

    @step(timeout="1h", retry=ONCE)
    async def slow() -> None:
        began.append(1)
        await asyncio.Event().wait()

    @workflow
    async def body() -> str:
        try:
            await slow()
        except TimeoutError as error:
            return type(error).__name__
        return ""

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: began)
        on.skip("1h")
        assert await run.result(PATIENCE) == "StepTimeout"


async def test_a_timeout_is_per_attempt_and_tried_again_like_any_error(database_url):
    attempts: list[int] = []

    @step(timeout="1h", retry=Retry(attempts=3, initial=0))
    async def slow() -> str:
        attempts.append(current_step().attempt)
        if len(attempts) < 3:
            await asyncio.Event().wait()
        return "third time lucky"

    @workflow
    async def body() -> str:
        return await slow()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        for n in (1, 2):
            await until(lambda n=n: len(attempts) == n)
            on.skip("1h")
        assert await run.result(PATIENCE) == "third time lucky"


async def test_a_def_step_past_its_timeout_is_abandoned(database_url):
    let_go, began = threading.Event(), threading.Event()

    @step(timeout="1h", retry=ONCE)
    def slow() -> str:
        began.set()
        let_go.wait(20)
        return "too late"

    @workflow
    async def body() -> str:
        try:
            return slow()
        except StepTimeout:
            return "timed out"

    async with stage(database_url, body) as on:
        try:
            run = await on.client.start(body)
            await until(began.is_set)
            on.skip("1h")
            assert await run.result(PATIENCE) == "timed out"
        finally:
            let_go.set()


async def test_the_late_result_of_an_abandoned_def_step_is_not_recorded(database_url):
    let_go, began, ended = threading.Event(), threading.Event(), threading.Event()

    @step(timeout="1h", retry=ONCE)
    def slow() -> str:
        began.set()
        let_go.wait(20)
        ended.set()
        return "too late"

    @workflow
    async def body() -> str:
        try:
            return slow()
        except StepTimeout:
            await sleep("1h")
            return "timed out"

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(began.is_set)
        on.skip("1h")
        await on.until_waiting(run)
        let_go.set()
        await until(ended.is_set)
        on.skip("2h")
        assert await run.result(PATIENCE) == "timed out"
        assert "step_completed" not in await on.kinds(run)


async def test_a_def_step_past_its_timeout_is_told(database_url):
    told, began = threading.Event(), threading.Event()

    @step(timeout="1h", retry=ONCE)
    def slow() -> None:
        me = current_step()
        began.set()
        for _ in range(2_000):
            if me.cancelled:
                told.set()
                return
            threading.Event().wait(0.01)

    @workflow
    def body() -> None:
        slow()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(began.is_set)
        on.skip("1h")
        await run.wait(PATIENCE)
        await until(told.is_set)


async def test_an_abandoned_def_step_is_reported(database_url, caplog):
    let_go, began = threading.Event(), threading.Event()

    @step(timeout="1h", retry=ONCE)
    def slow_one() -> None:
        began.set()
        let_go.wait(20)

    @workflow
    def body() -> None:
        slow_one()

    caplog.set_level(logging.WARNING)
    async with stage(database_url, body) as on:
        try:
            run = await on.client.start(body)
            await until(began.is_set)
            on.skip("1h")
            await run.wait(PATIENCE)
            assert "slow_one" in caplog.text
        finally:
            let_go.set()


async def test_a_step_that_swallows_its_cancel_can_not_write_its_result_later(database_url):
    began: list[int] = []

    @step(timeout="1h", retry=ONCE)
    async def stubborn() -> str:
        began.append(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        return "too late"

    @workflow
    async def body() -> str:
        return await stubborn()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: began)
        on.skip("1h")
        assert isinstance(await failure_of(run), StepTimeout)


async def test_a_step_may_know_its_own_deadline(database_url):
    @step(timeout="1h")
    async def look() -> bool:
        return current_step().deadline is not None

    @workflow
    async def body() -> bool:
        return await look()

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result() is True


# -- odd results -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_an_unserialisable_result_fails_once_and_its_effect_happens_once(database_url, colour):
    effects: list[int] = []

    @step
    async def async_step() -> Any:
        effects.append(1)
        return {"order": [1, object()]}

    @step
    def def_step() -> Any:
        effects.append(1)
        return {"order": [1, object()]}

    @workflow
    async def body(which: str) -> None:
        if which == "def":
            def_step()
        else:
            await async_step()

    async with stage(database_url, body) as on:
        error = await failure_of(await on.client.start(body, colour))
    assert isinstance(error, NotEncodable)
    assert effects == [1]


async def test_an_unserialisable_result_is_told_with_its_type_and_path(database_url):
    @step
    async def bad() -> Any:
        return {"order": [1, object()]}

    @workflow
    async def body() -> None:
        await bad()

    async with stage(database_url, body) as on:
        text = str(await failure_of(await on.client.start(body)))
    assert "object" in text
    assert "order" in text
    assert "1" in text


async def test_a_result_that_does_not_fit_its_annotation_fails_once(database_url):
    effects: list[int] = []

    @step
    async def lies() -> int:
        effects.append(1)
        return "text"  # type: ignore[return-value]

    @workflow
    async def body() -> None:
        await lies()

    async with stage(database_url, body) as on:
        assert (await (await on.client.start(body)).wait(PATIENCE)) == "failed"
    assert effects == [1]


async def test_an_oversized_result_fails_once(database_url):
    effects: list[int] = []

    @step
    async def big() -> str:
        effects.append(1)
        return "x" * 20_000

    @workflow
    async def body() -> int:
        return len(await big())

    async with stage(database_url, body, client={"max_payload": 10_000}) as on:
        error = await failure_of(await on.client.start(body))
    assert isinstance(error, PayloadTooLarge)
    assert effects == [1]


async def test_an_oversized_result_may_be_caught_and_the_run_goes_on(database_url):
    @step
    async def big() -> str:
        return "x" * 20_000

    @workflow
    async def body() -> str:
        try:
            return await big()
        except PayloadTooLarge:
            return "small"

    async with stage(database_url, body, client={"max_payload": 10_000}) as on:
        assert await (await on.client.start(body)).result(PATIENCE) == "small"


# -- odd exceptions ----------------------------------------------------------------------------------------------------


class Odd(BaseException):
    """Not an Exception."""


@pytest.mark.parametrize("colour", ["async", "def"])
@pytest.mark.parametrize(
    "error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit(), StopIteration(), Odd()], ids=repr
)
async def test_what_is_no_ordinary_exception_is_step_failed_and_not_tried_again(database_url, colour, error):
    attempts: list[int] = []

    @step
    async def async_step() -> None:
        attempts.append(1)
        raise error

    @step
    def def_step() -> None:
        attempts.append(1)
        raise error

    @workflow
    async def body(which: str) -> str:
        try:
            if which == "def":
                def_step()
            else:
                await async_step()
        except StepFailed as failed:
            return failed.type
        return "nothing"

    async with stage(database_url, body) as on:
        found = await (await on.client.start(body, colour)).result(PATIENCE)
    assert type(error).__name__ in found
    assert attempts == [1]


async def test_a_stray_cancelled_error_does_not_cancel_the_run(database_url):
    @step
    async def stray() -> None:
        raise asyncio.CancelledError

    @workflow
    async def body() -> None:
        await stray()

    async with stage(database_url, body) as on:
        assert (await (await on.client.start(body)).wait(PATIENCE)) == "failed"


async def test_a_step_that_cancels_its_own_task_fails(database_url):
    @step(retry=ONCE)
    async def stray() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    @workflow
    async def body() -> None:
        await stray()

    async with stage(database_url, body) as on:
        assert (await (await on.client.start(body)).wait(PATIENCE)) == "failed"


async def test_the_worker_goes_on_after_a_step_raised_system_exit(database_url):
    @step
    async def leave() -> None:
        raise SystemExit

    @step
    async def stay() -> int:
        return 1

    @workflow
    async def leaves() -> None:
        await leave()

    @workflow
    async def stays() -> int:
        return await stay()

    async with stage(database_url, leaves, stays) as on:
        await (await on.client.start(leaves)).wait(PATIENCE)
        assert await (await on.client.start(stays)).result(PATIENCE) == 1


# -- what a step may know ----------------------------------------------------------------------------------------------


async def test_a_step_knows_its_run_and_itself(database_url):
    @step
    async def async_look() -> list[str]:
        me = current_step()
        return [me.name, me.key, me.run_id, me.workflow, current_run().id]

    @step
    def def_look() -> list[str]:
        me = current_step()
        return [me.name, me.key, me.run_id, me.workflow, current_run().id]

    @workflow
    async def body() -> list[list[str]]:
        return [await async_look(), def_look()]

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        assert await run.result(PATIENCE) == [
            ["async_look", "async_look", run.id, "body", run.id],
            ["def_look", "def_look", run.id, "body", run.id],
        ]


async def test_the_idempotency_key_is_the_same_for_every_attempt(database_url):
    keys: list[str] = []

    @step(retry=Retry(attempts=3, initial=0))
    async def flaky() -> None:
        keys.append(current_step().idempotency_key)
        raise ValueError

    @workflow
    async def body() -> None:
        await flaky()

    async with stage(database_url, body) as on:
        await (await on.client.start(body)).wait(PATIENCE)
    assert len(keys) == 3
    assert len(set(keys)) == 1


async def test_the_idempotency_key_differs_from_step_to_step_and_run_to_run(database_url):
    @step
    async def key() -> str:
        return current_step().idempotency_key

    @workflow
    async def body() -> list[str]:
        return [await key(), await key()]

    async with stage(database_url, body) as on:
        runs = await on.client.start_many(body, [(), ()])
        keys = [key for run in runs for key in await run.result(PATIENCE)]
    assert len(set(keys)) == 4


async def test_the_idempotency_key_is_kept_by_a_retry(database_url):
    keys: list[str] = []

    @step(retry=ONCE)
    async def flaky() -> None:
        keys.append(current_step().idempotency_key)
        if len(keys) == 1:
            raise ValueError

    @workflow
    async def body() -> None:
        await flaky()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await run.wait(PATIENCE)
        again = await on.client.retry(run.id)
        await again.result(PATIENCE)
    assert keys[0] == keys[1]


async def test_a_step_inside_a_step_is_a_plain_call(database_url):
    @step
    async def inner(n: int) -> int:
        return n + 1

    @step
    async def outer(n: int) -> int:
        return await inner(n) * 10

    @workflow
    async def body() -> int:
        return await outer(1)

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        assert await run.result(PATIENCE) == 20
        assert (await on.kinds(run)).count("step_asked") == 1


@pytest.mark.parametrize("wait", ["sleep", "now", "start"])
async def test_a_durable_call_inside_a_step_is_refused(database_url, wait):
    @step
    async def inner() -> None:
        pass

    @step(retry=ONCE)
    async def misplaced(what: str) -> None:
        if what == "sleep":
            await sleep(1)
        elif what == "now":
            now()
        else:
            inner.start()

    @workflow
    async def body(what: str) -> None:
        await misplaced(what)

    async with stage(database_url, body) as on:
        assert isinstance(await failure_of(await on.client.start(body, wait)), NotInBody)


async def test_a_log_line_in_a_step_says_which_run_and_step(database_url, caplog):
    @step
    def speak() -> None:
        logger.info("hello")

    @workflow
    def body() -> None:
        speak()

    caplog.set_level(logging.INFO, "holdfast.run")
    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await run.result(PATIENCE)
    [line] = [record for record in caplog.records if record.getMessage() == "hello"]
    assert (line.run_id, line.step) == (run.id, "speak")


async def test_a_def_step_runs_in_a_thread(database_url):
    @step
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    @workflow
    async def body() -> bool:
        return where()

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result(PATIENCE) is False


async def test_an_async_step_runs_on_the_workers_loop(database_url):
    loops: list[object] = []

    @step
    async def where() -> None:
        loops.append(asyncio.get_running_loop())

    @workflow
    async def body() -> None:
        await where()

    async with stage(database_url, body) as on:
        await (await on.client.start(body)).result(PATIENCE)
        assert loops == [asyncio.get_running_loop()]


async def test_a_step_of_an_ended_race_is_cancelled(database_url):
    seen: list[str] = []

    @step
    async def slow() -> None:
        seen.append("began")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    @step
    async def quick() -> None:
        await until(lambda: seen)

    @workflow
    async def body() -> None:
        tasks = [asyncio.create_task(slow()), asyncio.create_task(quick())]
        _, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in rest:
            one.cancel()

    async with stage(database_url, body) as on:
        await (await on.client.start(body)).result(PATIENCE)
        await until(lambda: seen == ["began", "cancelled"])


# -- what an attempt tells the next one --------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_an_attempt_finds_what_the_failed_one_before_it_said_last(database_url, colour):
    found: list[Any] = []

    def work() -> str:
        me = current_step()
        found.append(me.heartbeat_details)
        me.heartbeat({"page": 10 * me.attempt})
        me.heartbeat({"page": 10 * me.attempt + 1})
        if me.attempt < 3:
            raise ValueError("not yet")
        return "done"

    @step(retry=Retry(attempts=3, initial=0, jitter=0))
    async def asynchronous() -> str:
        return work()

    @step(retry=Retry(attempts=3, initial=0, jitter=0))
    def threaded() -> str:
        return work()

    @workflow
    async def body() -> str:
        return await asynchronous() if colour == "async" else threaded()

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result(PATIENCE) == "done"
    assert found == [None, {"page": 11}, {"page": 21}]


async def test_an_attempt_that_says_nothing_passes_on_what_it_found(database_url):
    found: list[Any] = []

    @step(retry=Retry(attempts=3, initial=0, jitter=0))
    async def silent() -> None:
        me = current_step()
        found.append(me.heartbeat_details)
        if me.attempt == 1:
            me.heartbeat("so far")
        if me.attempt < 3:
            me.heartbeat()
            raise ValueError("not yet")

    @workflow
    async def body() -> None:
        await silent()

    async with stage(database_url, body) as on:
        await (await on.client.start(body)).result(PATIENCE)
    assert found == [None, "so far", "so far"]


async def test_details_outlast_the_worker_that_heard_them(database_url):
    found: list[Any] = []

    @step(retry=Retry(attempts=2, initial="1h", jitter=0))
    async def slow() -> str:
        found.append(current_step().heartbeat_details)
        current_step().heartbeat([1, 2])
        if len(found) == 1:
            raise ValueError("not yet")
        return "done"

    @workflow
    async def body() -> str:
        return await slow()

    async with stage(database_url) as on:
        async with on.worker(body):
            run = await on.client.start(body)
            await on.until_waiting(run)
        on.skip("2h")
        async with on.worker(body):
            assert await run.result(PATIENCE) == "done"
    assert found == [None, [1, 2]]


async def test_details_that_can_not_be_stored_are_the_steps_error(database_url):
    @step(retry=ONCE)
    async def odd() -> None:
        current_step().heartbeat(object())

    @workflow
    async def body() -> None:
        await odd()

    async with stage(database_url, body) as on:
        assert isinstance(await failure_of(await on.client.start(body)), NotEncodable)
