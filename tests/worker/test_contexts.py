"""Contextvars: what a step sets is its own."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context

import pytest

from holdfast import NotInRun, Retry, current_run, current_step, emit, resource, step, workflow
from tests.worker.stage import PATIENCE, stage

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@step
async def see(name: str) -> str:
    found = tenant.get()
    tenant.set(name)
    return found


@step
def see_in_a_thread(name: str) -> str:
    found = tenant.get()
    tenant.set(name)
    return found


@workflow
async def look(name: str) -> list[str]:
    return [await see(name), see_in_a_thread(name), await see(name), see_in_a_thread(name)]


async def test_a_context_variable_that_a_step_sets_is_seen_by_no_other_step(database_url):
    async with stage(database_url, look) as on:
        runs = await on.client.start_many(look, [(f"tenant {n}",) for n in range(20)])
        for run in runs:
            assert await run.result(PATIENCE) == ["nobody"] * 4


async def test_a_context_variable_set_around_the_worker_is_seen_by_its_steps(database_url):
    tenant.set("the worker's own")
    try:
        async with stage(database_url, look) as on:
            run = await on.client.start(look, "somebody")
            assert await run.result(PATIENCE) == ["the worker's own"] * 4
    finally:
        tenant.set("nobody")


def in_a_pool(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


@resource
def prices() -> Iterator[str]:
    yield "the prices"


CALLS = {
    "current_step": lambda: current_step().name,
    "current_run": lambda: current_run().workflow,
    "emit": lambda: emit("words", "hello"),
    "a resource": lambda: prices(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_pool_of_a_step_s_own_has_to_be_given_the_step_s_context(database_url, call):
    @step(retry=Retry(attempts=1))
    def ask() -> None:
        with pytest.raises(NotInRun, match=r"outside a run.* contextvars.copy_context\(\).run"):
            in_a_pool(call)
        in_a_pool(functools.partial(copy_context().run, call))

    @workflow
    async def asking() -> None:
        ask()

    async with stage(database_url, asking, resources=[prices]) as on:
        await (await on.client.start(asking)).result(PATIENCE)
