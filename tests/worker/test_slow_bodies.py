"""A body that holds the worker's loop up is reported, with its line, and so is a step."""

from __future__ import annotations

import time

import pytest

from holdfast import step, workflow
from tests.worker.stage import PATIENCE, stage


def block(caplog: pytest.LogCaptureFixture, complaint: str = "has blocked this worker's loop") -> None:
    """Block the loop until it is reported."""
    for _ in range(PATIENCE * 100):
        if complaint in caplog.text:
            return
        time.sleep(0.01)


async def test_a_body_that_blocks_is_reported_with_its_line(database_url, caplog):
    @workflow
    async def body() -> None:
        block(caplog)  # the line

    async with stage(database_url, body, blocked_after="50ms") as on:
        await (await on.client.start(body)).result(PATIENCE)
    assert "block(caplog)  # the line" in caplog.text


async def test_a_def_body_that_blocks_is_reported_with_its_line(database_url, caplog):
    @workflow
    def body() -> None:
        block(caplog)  # the line

    async with stage(database_url, body, blocked_after="50ms") as on:
        await (await on.client.start(body)).result(PATIENCE)
    assert "block(caplog)  # the line" in caplog.text


async def test_an_async_step_that_blocks_is_reported_with_its_line(database_url, caplog):
    @step
    async def read() -> None:
        block(caplog, "this worker's loop has been blocked")  # the line

    @workflow
    async def body() -> None:
        await read()

    async with stage(database_url, body, blocked_after="50ms") as on:
        await (await on.client.start(body)).result(PATIENCE)
    assert 'block(caplog, "this worker\'s loop has been blocked")  # the line' in caplog.text
    assert "make such a step a `def`" in caplog.text
    assert "the body of" not in caplog.text
