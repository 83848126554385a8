"""A stage of the contract's on one database, for tests of one store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from holdfast.store import Store, open_store
from holdfast.testing.contract.stage import Stage

T = TypeVar("T")
MEANWHILE = 20.0
"""Seconds for what must not wait for somebody else: below the 24 in which one that waits for a lock would be told, and
enough for a machine that stands still for a while."""


@contextlib.asynccontextmanager
async def staged(url: str, **options: Any) -> AsyncIterator[Stage]:
    """Its stores are opened with these options, and closed at the end."""
    async with _opened(lambda **more: open_store(url, **options, **more)) as stage:
        yield stage


def play_on(make_store: Callable[[], Store], act: Callable[[Stage], Awaitable[T]]) -> T:
    """What an `async def` returns on a stage whose store is open, in a loop of its own."""

    async def on_stage() -> T:
        async with _opened(make_store) as stage:
            return await act(stage)

    return asyncio.run(on_stage())


@contextlib.asynccontextmanager
async def _opened(make_store: Callable[..., Store]) -> AsyncIterator[Stage]:
    stage = Stage(make_store)
    await stage.store.open()
    try:
        yield stage
    finally:
        await stage.close()
