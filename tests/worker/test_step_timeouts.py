"""Timeouts of steps: per attempt, told to the step, and what comes too late is recorded by nobody."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading

import pytest

import holdfast
from holdfast import Retry, StepTimeout, current_step, emit, set_value, sleep, step, workflow
from holdfast.errors import StoreAway
from tests.worker.stage import ONCE, PATIENCE, failure_of, stage, until


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


async def test_a_timeout_of_zero_is_a_timeout(database_url):
    @step(timeout=0, retry=ONCE)
    async def slow() -> None:
        await asyncio.Event().wait()

    @workflow
    async def body() -> None:
        await slow()

    async with stage(database_url, body) as on:
        assert isinstance(await failure_of(await on.client.start(body)), StepTimeout)


async def test_an_error_in_the_cleanup_of_a_timed_out_step_is_the_cause_of_its_timeout(database_url):
    began: list[int] = []

    @step(timeout="1h", retry=ONCE)
    async def slow() -> None:
        began.append(1)
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("half closed")

    @workflow
    async def body() -> None:
        await slow()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: began)
        on.skip("1h")
        error = await failure_of(run)
    assert type(error) is StepTimeout
    assert type(error.__cause__) is ValueError


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


@pytest.mark.parametrize("is_mapped", [False, True], ids=["alone", "mapped"])
async def test_an_abandoned_def_step_sends_nothing(database_url, is_mapped):
    let_go, began, ended = threading.Event(), threading.Event(), threading.Event()

    # Items of a chunk are timed by the chunk's own thread.
    @step(timeout=0.01 if is_mapped else "1h", retry=ONCE)
    def slow(n: int) -> None:
        began.set()
        let_go.wait(20)
        set_value("last word", "the step's")
        emit("words", "the step's")
        ended.set()

    @workflow
    async def body() -> None:
        try:
            _ = await holdfast.map(slow, [1]) if is_mapped else slow(1)
        except StepTimeout:
            set_value("last word", "the body's")
            await sleep("1h")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(began.is_set)
        on.skip("1h")
        await on.until_waiting(run)
        let_go.set()
        await until(ended.is_set)
        on.skip("2h")
        await run.result(PATIENCE)
        assert await run.value("last word") == "the body's"
        assert await run.streams() == []


async def test_an_abandoned_transaction_on_sqlite_sends_nothing(database_url):
    let_go, ended = threading.Event(), threading.Event()

    @step(transaction=True, timeout=0.1, retry=ONCE)
    def slow(db: sqlite3.Connection) -> None:
        set_value("last word", "the step's")
        emit("words", "the step's")
        let_go.wait(20)
        ended.set()

    @workflow
    async def body() -> None:
        try:
            slow()
        except StepTimeout:
            set_value("last word", "the body's")
            await sleep("1h")

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        let_go.set()
        await until(ended.is_set)
        on.skip("1h")
        await run.result(PATIENCE)
        assert await run.value("last word") == "the body's"
        assert await run.streams() == []


async def test_a_def_step_past_its_timeout_sees_that_it_is_cancelled(database_url):
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
        assert await asyncio.to_thread(told.wait, PATIENCE)


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


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_step_that_ends_in_time_is_not_late_because_what_it_sent_has_to_wait(database_url, monkeypatch, colour):
    ended: list[int] = []
    refused: list[int] = []

    def work() -> str:
        set_value("state", "here")
        ended.append(1)
        return "in time"

    @step(timeout="1h", retry=ONCE)
    async def on_the_loop() -> str:
        return work()

    @step(timeout="1h", retry=ONCE)
    def in_a_thread() -> str:
        return work()

    @workflow
    async def body() -> str:
        return await on_the_loop() if colour == "async" else in_a_thread()

    async def away(*_: object, **__: object) -> None:
        refused.append(1)
        raise StoreAway("not now")

    async with stage(database_url, body) as on:
        kept = on.store.set_value
        monkeypatch.setattr(on.store, "set_value", away)
        run = await on.client.start(body)
        await until(lambda: ended and refused)
        on.skip("2h")
        await until(lambda: len(refused) > 1)
        monkeypatch.setattr(on.store, "set_value", kept)
        assert await run.result(PATIENCE) == "in time"
    assert ended == [1]


async def test_the_thread_of_a_cancelled_run_s_step_is_left_behind_at_its_timeout(database_url):
    begun, is_over = threading.Event(), threading.Event()

    @step(timeout="1h")
    def stuck() -> None:
        begun.set()
        is_over.wait()

    @step
    def quick() -> str:
        return "has a thread"

    @workflow
    async def sticking() -> None:
        stuck()

    @workflow
    async def body() -> str:
        return quick()

    async with stage(database_url, sticking, body, threads=1) as on:
        run = await on.client.start(sticking)
        await until(begun.is_set)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"
        on.skip("2h")
        try:
            assert await (await on.client.start(body)).result(PATIENCE) == "has a thread"
        finally:
            is_over.set()
