"""A StopIteration that leaves a step."""

from __future__ import annotations

import pytest

from holdfast import StepFailed, step, workflow
from tests.worker.stage import stage

PATIENCE = "20s"


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_stop_iteration_from_a_step_is_step_failed_and_not_tried_again(database_url, colour):
    attempts: list[int] = []

    @step
    async def async_step() -> None:
        attempts.append(1)
        raise StopIteration

    @step
    def def_step() -> None:
        attempts.append(1)
        raise StopIteration

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
        assert "StopIteration" in await (await on.client.start(body, colour)).result(PATIENCE)
    assert attempts == [1]
