"""A stage of the contract's on one database, for tests of one store."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from holdfast.store import open_store
from holdfast.testing.contract.stage import Stage


@contextlib.asynccontextmanager
async def staged(url: str, **options: Any) -> AsyncIterator[Stage]:
    """Its stores are opened with these options, and closed at the end."""
    stage = Stage(lambda **more: open_store(url, **options, **more))
    await stage.store.open()
    try:
        yield stage
    finally:
        await stage.close()
