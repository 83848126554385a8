"""A body that holds the worker's loop up is reported, with its line."""

from __future__ import annotations

import time

import pytest

from holdfast import workflow
from tests.worker.stage import PATIENCE, stage


def block(caplog: pytest.LogCaptureFixture) -> None:
    """Hold the loop up until somebody complains."""
    for _ in range(PATIENCE * 100):
        if "has blocked this worker's loop" in caplog.text:
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
