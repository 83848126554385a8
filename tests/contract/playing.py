"""One act on a stage of its own, in a loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.store import Store
from holdfast.testing.contract.stage import Stage


def play_on(make_store: Callable[[], Store], act: Callable[[Stage], Awaitable[None]]) -> None:
    """Run an `async def` on a stage whose store is open."""

    async def on_stage() -> None:
        stage = Stage(make_store)
        await stage.store.open()
        try:
            await act(stage)
        finally:
            await stage.close()

    asyncio.run(on_stage())
