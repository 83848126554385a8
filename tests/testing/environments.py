"""Environments that the tests of the test kit share, and workflows that do nothing but wait."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import holdfast
from holdfast import workflow
from holdfast.testing import Environment
from tests.testing.orders import charge, checkout

START = datetime(2030, 1, 1, tzinfo=UTC)


@workflow
async def for_ever() -> None:
    await asyncio.Event().wait()


@workflow
async def forty_days() -> str:
    await holdfast.sleep("40d")
    return str(holdfast.now())


def environment(**given: Any) -> Environment:
    """One in which a card is charged by a stub. What is given goes before."""
    return Environment(
        **{"workflows": [checkout, for_ever, forty_days], "stubs": {charge: "paid"}, "start": START, **given}
    )
