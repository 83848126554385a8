"""Steps that go on although their run was cancelled: they are reported, and their place becomes free."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading

import pytest

from holdfast import StepTimeout, emit, set_value, sleep, step, wait_for_signal, workflow
from tests.worker.stage import ONCE, PATIENCE, stage, until


@step
def quick() -> str:
    return "has a thread"


@workflow
async def next_one() -> str:
    return quick()


@pytest.mark.parametrize("timeout", [None, "30d"])
async def test_the_place_of_a_cancelled_run_s_step_is_free_after_a_while(database_url, caplog, timeout):
    begun, is_over = threading.Event(), threading.Event()

    @step(timeout=timeout)
    def deaf() -> None:
        begun.set()
        is_over.wait(PATIENCE)

    @workflow
    async def body() -> None:
        deaf()

    caplog.set_level(logging.WARNING)
    async with stage(database_url, body, next_one, threads=1) as on:
        try:
            run = await on.client.start(body)
            await until(begun.is_set)
            await run.cancel()
            assert await run.wait(PATIENCE) == "cancelled"
            assert "called off" not in caplog.text
            on.skip("1m")
            assert await (await on.client.start(next_one)).result(PATIENCE) == "has a thread"
        finally:
            is_over.set()
    told = [one.getMessage() for one in caplog.records if "called off" in one.getMessage()]
    assert len(told) == 1
    assert "deaf" in told[0]
    assert run.id in told[0]


async def test_an_async_step_that_swallows_its_cancel_is_reported(database_url, caplog):
    begun, is_over = asyncio.Event(), asyncio.Event()

    @step
    async def stubborn() -> None:
        begun.set()
        while not is_over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await is_over.wait()

    @workflow
    async def body() -> None:
        await stubborn()

    caplog.set_level(logging.WARNING)
    async with stage(database_url, body) as on:
        try:
            run = await on.client.start(body)
            await begun.wait()
            await run.cancel()
            assert await run.wait(PATIENCE) == "cancelled"
            on.skip("1m")
            await until(lambda: "called off" in caplog.text)
        finally:
            is_over.set()
    assert "stubborn" in caplog.text
    assert run.id in caplog.text


async def test_a_step_that_ends_soon_after_its_run_was_cancelled_is_not_reported(database_url, caplog):
    begun, is_over = threading.Event(), threading.Event()

    @step
    def slow() -> None:
        begun.set()
        is_over.wait(PATIENCE)

    @workflow
    async def body() -> None:
        slow()

    caplog.set_level(logging.WARNING)
    async with stage(database_url, body, next_one, threads=1) as on:
        run = await on.client.start(body)
        await until(begun.is_set)
        await run.cancel()
        assert await run.wait(PATIENCE) == "cancelled"
        is_over.set()
        assert await (await on.client.start(next_one)).result(PATIENCE) == "has a thread"
        on.skip("1m")
        await asyncio.sleep(0.05)
    assert "called off" not in caplog.text


async def test_a_step_that_was_left_behind_sends_nothing_although_its_run_goes_on(database_url, caplog):
    begun, go_on, is_over = threading.Event(), threading.Event(), threading.Event()

    @step
    def loser() -> None:
        begun.set()
        go_on.wait(PATIENCE)
        emit("progress", "too late")
        is_over.set()

    @workflow
    async def body() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3_600):
                loser()
        await wait_for_signal("end")
        await sleep(0)

    caplog.set_level(logging.WARNING)
    async with stage(database_url, body) as on:
        try:
            run = await on.client.start(body)
            await until(begun.is_set)
            on.skip("1h")
            await on.until_waiting(run)
            on.skip("1m")
            await until(lambda: "called off" in caplog.text)
        finally:
            go_on.set()
        await until(is_over.is_set)
        await run.signal("end")
        await run.result(PATIENCE)
        assert [item.value async for item in run.stream("progress")] == []


@step
async def chat() -> None:
    set_value("chat", "over")


@workflow
async def chatting() -> None:
    await chat()


async def test_a_transaction_past_its_timeout_sends_nothing(file):
    begun, go_on, is_over = threading.Event(), threading.Event(), threading.Event()

    @step(transaction=True, timeout="5s", retry=ONCE)
    def book(db: sqlite3.Connection) -> None:
        set_value("state", "booking")
        begun.set()
        go_on.wait(PATIENCE)
        is_over.set()

    @workflow
    async def body() -> None:
        with contextlib.suppress(StepTimeout):
            book()
        set_value("state", "given up")
        await wait_for_signal("end")

    async with stage(file, body, chatting) as on:
        try:
            run = await on.client.start(body)
            await until(begun.is_set)
            on.skip("5s")
            await on.until_waiting(run)
        finally:
            go_on.set()
        await until(is_over.is_set)
        # What is sent goes out in order: had it been sent, it would be there before this.
        await (await on.client.start(chatting)).result(PATIENCE)
        assert await run.value("state") == "given up"


async def test_a_task_that_a_timed_out_step_left_running_sends_nothing(database_url):
    go_on, is_over = asyncio.Event(), asyncio.Event()
    left: list[asyncio.Task[None]] = []

    async def talk() -> None:
        await go_on.wait()
        set_value("state", "too late")
        is_over.set()

    @step(timeout="5s", retry=ONCE)
    async def hang() -> None:
        left.append(asyncio.create_task(talk()))
        await asyncio.Event().wait()

    @workflow
    async def body() -> None:
        with contextlib.suppress(StepTimeout):
            await hang()
        set_value("state", "given up")
        await wait_for_signal("end")

    async with stage(database_url, body, chatting) as on:
        run = await on.client.start(body)
        await until(lambda: left)
        on.skip("5s")
        await on.until_waiting(run)
        go_on.set()
        await is_over.wait()
        await (await on.client.start(chatting)).result(PATIENCE)
        assert await run.value("state") == "given up"
