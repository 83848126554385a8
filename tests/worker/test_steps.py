"""What a step knows about itself and its run, and where it is executed."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
import threading

import pytest

from holdfast import (
    NotInBody,
    Retry,
    compensate,
    current_run,
    current_step,
    logger,
    now,
    rollback,
    sleep,
    step,
    workflow,
)
from tests.worker.samples import add
from tests.worker.stage import ONCE, PATIENCE, failure_of, stage, until


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


async def test_an_argument_of_a_step_may_have_any_name(database_url):
    """As when a document is passed on by `**document` and one of its keys is "self"."""
    undone: list[dict[str, str]] = []

    @step
    def def_keep(**named: str) -> dict[str, str]:
        return named

    @step
    async def async_keep(**named: str) -> dict[str, str]:
        return named

    def undo(**named: str) -> None:
        undone.append(named)

    @workflow
    def child(**named: str) -> dict[str, str]:
        return named

    @workflow
    async def async_child(**named: str) -> dict[str, str]:
        return named

    @workflow
    async def body(**named: str) -> list[dict[str, str]]:
        compensate(undo, **named)
        await rollback()
        return [
            *(def_keep(**named), await async_keep(**named), await def_keep.start(**named)),
            *(child(**named), await async_child(**named), await child.start(**named)),
        ]

    named = {"self": "a", "fn": "b", "name": "c", "args": "d"}
    async with stage(database_url, body, child, async_child) as on:
        run = await on.client.start(body, **named)
        assert await run.result(PATIENCE) == [named] * 6
    assert undone == [named]


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

    @step(retry=ONCE)
    async def seen_by_then() -> list[str]:
        await until(lambda: len(seen) == 2)
        return seen

    @workflow
    async def body() -> list[str]:
        tasks = [asyncio.create_task(slow()), asyncio.create_task(quick())]
        _, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in rest:
            one.cancel()
        return await seen_by_then()

    async with stage(database_url, body) as on:
        assert await (await on.client.start(body)).result(PATIENCE) == ["began", "cancelled"]


def test_a_step_is_pickled_by_its_name_as_a_function_is():
    """So a step may have a pool of processes execute another one."""
    assert pickle.loads(pickle.dumps(add)) is add
    assert copy.deepcopy(add) is add
    with pytest.raises(pickle.PicklingError, match="not the same object"):
        pickle.dumps(add.options(name="sum"))
