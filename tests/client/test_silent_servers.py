"""A database that neither answers nor hangs up: whoever has given a timeout gets it kept, and closing takes seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast.client import AsyncClient, AsyncRun, Client
from holdfast.errors import RunCancelled
from holdfast.model import RunStatus
from tests.client.hands import total
from tests.servers import Databases
from tests.servers.wire import Wire

SOON = 20.0
"""Seconds: far below any timeout of the store's own, and enough for a machine that stands still for a while."""


@asynccontextmanager
async def begun(postgres: Databases) -> AsyncIterator[tuple[Wire, AsyncRun[int]]]:
    """A run that has not ended, and the wire to its database."""
    async with Wire(postgres.create_database()) as wire, AsyncClient(wire.url) as client:
        run = await client.start(total, 1)
        yield wire, run


@pytest.mark.parametrize("timeout", [0, 0.5])
@pytest.mark.parametrize("wait", [AsyncRun.result, AsyncRun.wait])
async def test_a_timeout_is_kept_though_the_database_does_not_answer(
    postgres: Databases, wait: Callable[..., Awaitable[Any]], timeout: float
):
    async with begun(postgres) as (wire, run):
        wire.fall_silent()
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="as far as is known: the database does not answer"):
            await wait(run, timeout=timeout)
        assert time.monotonic() - began < SOON
    assert time.monotonic() - began < 2 * SOON


async def test_the_blocking_client_keeps_its_timeouts_too(postgres: Databases):
    async with Wire(postgres.create_database()) as wire:
        client = Client(wire.url)
        run = await asyncio.to_thread(client.start, total, 1)
        wire.fall_silent()
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="the database does not answer"):
            await asyncio.to_thread(run.result, timeout=0.5)
        assert time.monotonic() - began < SOON
        await asyncio.to_thread(client.close)
        assert time.monotonic() - began < 2 * SOON


async def test_opening_a_database_that_does_not_answer_takes_no_longer_than_the_timeout(postgres: Databases):
    async with Wire(postgres.create_database()) as wire, AsyncClient(wire.url) as client:
        run: AsyncRun[Any] = AsyncRun(client._connection, "r-1", workflow="total", status=RunStatus.PENDING)
        wire.fall_silent()
        began = time.monotonic()
        with pytest.raises(TimeoutError, match="the database does not answer"):
            await run.result(timeout=0.5)
        assert time.monotonic() - began < SOON
        await client.close()
        assert time.monotonic() - began < 2 * SOON


async def test_result_reads_the_reason_of_a_cancel_for_no_longer_than_its_timeout(postgres: Databases):
    async with begun(postgres) as (wire, run):
        await run.cancel(reason="too dear")
        assert await run.wait(timeout=SOON) is RunStatus.CANCELLED
        wire.fall_silent()
        began = time.monotonic()
        with pytest.raises(RunCancelled, match="the database does not answer: ask it later why"):
            await run.result(timeout=0.5)
        assert time.monotonic() - began < SOON
