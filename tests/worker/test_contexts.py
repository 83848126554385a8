"""Contextvars: what a step sets is its own."""

from __future__ import annotations

from contextvars import ContextVar

from holdfast import step, workflow
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


async def test_what_one_step_sets_is_seen_by_no_other_step_of_any_run(database_url):
    async with stage(database_url, look) as on:
        runs = await on.client.start_many(look, [(f"tenant {n}",) for n in range(20)])
        for run in runs:
            assert await run.result(PATIENCE) == ["nobody"] * 4


async def test_what_surrounds_the_worker_is_seen_by_its_steps(database_url):
    tenant.set("the worker's own")
    try:
        async with stage(database_url, look) as on:
            run = await on.client.start(look, "somebody")
            assert await run.result(PATIENCE) == ["the worker's own"] * 4
    finally:
        tenant.set("nobody")
