"""A body that holds the worker's loop up is reported, with its line."""

from __future__ import annotations

import logging
import time

from holdfast import workflow
from tests.worker.stage import PATIENCE, stage, until


async def test_a_body_that_blocks_is_reported_with_its_line(database_url, caplog):
    @workflow
    async def body() -> None:
        time.sleep(0.4)  # the line

    caplog.set_level(logging.WARNING)
    async with stage(database_url, body, blocked_after="50ms") as on:
        await (await on.client.start(body)).result(PATIENCE)
        await until(lambda: "time.sleep(0.4)" in caplog.text)
    assert "body" in caplog.text


async def test_a_def_body_that_blocks_is_reported_with_its_line(database_url, caplog):
    @workflow
    def body() -> None:
        time.sleep(0.4)  # the line

    caplog.set_level(logging.WARNING)
    async with stage(database_url, body, blocked_after="50ms") as on:
        await (await on.client.start(body)).result(PATIENCE)
        await until(lambda: "time.sleep(0.4)" in caplog.text)
