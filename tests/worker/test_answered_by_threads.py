"""A body that awaits the answer of a thread is blocked, wherever its run is, and the report says why."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import NotInBody, RunStatus, wait_for_signal, workflow
from tests.worker.gates import Gate
from tests.worker.stage import PATIENCE, Stage, stage, until


class Answers:
    """Threads that answer the futures that bodies wait for, when the test lets them."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.heard: list[type[BaseException]] = []
        """What they were told."""

    def ask(self, answer: Callable[[], object]) -> None:
        """As a library does it: a thread, and the loop told from there."""
        threading.Thread(target=self._answer, args=(asyncio.get_running_loop(), answer), daemon=True).start()

    def _answer(self, loop: asyncio.AbstractEventLoop, answer: Callable[[], object]) -> None:
        self.may.wait(PATIENCE)
        try:
            loop.call_soon_threadsafe(answer)
        except BaseException as error:
            self.heard.append(type(error))


async def by_hand(answers: Answers) -> None:
    future: asyncio.Future[None] = asyncio.Future()
    answers.ask(lambda: future.set_result(None))
    await future


async def by_the_loop(answers: Answers) -> None:
    future = asyncio.get_running_loop().create_future()
    answers.ask(lambda: future.set_result(None))
    await future


async def by_an_event(answers: Answers) -> None:
    event = asyncio.Event()
    answers.ask(event.set)
    await event.wait()


async def within_an_hour(answers: Answers) -> None:
    async with asyncio.timeout(3_600):
        await by_hand(answers)


async def beside_a_signal(answers: Answers) -> None:
    await asyncio.gather(by_the_loop(answers), wait_for_signal("never"))


WAYS = [by_hand, by_the_loop, by_an_event, within_an_hour, beside_a_signal]


async def is_blocked_with_advice(on: Stage, run: Any) -> bool:
    return "move this into a step" in await on.until_blocked(run)


@pytest.mark.parametrize("keep_parked", [0, 1_000])
@pytest.mark.parametrize("way", WAYS, ids=lambda one: one.__name__)
async def test_a_run_whose_body_waits_for_a_thread_is_blocked(database_url, way, keep_parked):
    answers = Answers()

    @workflow
    async def body() -> None:
        await way(answers)

    async with stage(database_url, body, keep_parked=keep_parked) as on:
        run = await on.client.start(body)
        await on.until_waiting(run)
        answers.may.set()
        assert await is_blocked_with_advice(on, run)
        assert on.clock.skipped == 0
    assert answers.heard[0] is NotInBody


async def test_a_run_whose_body_waits_for_a_thread_is_blocked_by_the_next_worker_if_its_own_has_left(database_url):
    answers = Answers()

    @workflow
    async def body() -> None:
        await by_hand(answers)

    async with stage(database_url) as on:
        run = await on.client.start(body)
        async with on.worker(body):
            await on.until_waiting(run)
        on.skip("2m")
        async with on.worker(body):
            answers.may.set()
            assert await is_blocked_with_advice(on, run)


async def test_a_step_beside_a_wait_for_a_thread_ends_first_and_is_not_executed_again(database_url):
    answers, gate = Answers(), Gate()
    gated = gate.step()

    @workflow
    async def body() -> None:
        await asyncio.gather(gated(), by_hand(answers))

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await until(lambda: gate.begun)
        answers.may.set()
        await until(lambda: answers.heard)
        await asyncio.sleep(0.05)
        assert gate.cancelled == 0
        gate.go_on.set()
        assert await is_blocked_with_advice(on, run)
        assert "step_completed" in await on.kinds(run)
        on.skip("1h")
        await until(lambda: len(answers.heard) > 1)
    assert gate.begun == 1


async def test_a_body_may_wait_until_it_is_cancelled(database_url):
    @workflow
    async def body() -> None:
        await asyncio.Event().wait()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        async with on.worker(body):
            await on.until_waiting(run)
        on.skip("2m")
        async with on.worker(body, keep_parked=0):
            await on.until_status(run, RunStatus.RUNNING, RunStatus.WAITING)
            await run.cancel()
            assert await run.wait(PATIENCE) is RunStatus.CANCELLED
