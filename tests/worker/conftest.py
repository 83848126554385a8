"""Real workers on real SQLite files (see stage.py). A test may be an `async def`: each gets a loop of its own."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
from collections.abc import Coroutine
from typing import Any

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(_in_time(pyfuncitem.obj(**arguments)))
    return True


async def _in_time(test: Coroutine[Any, Any, None]) -> None:
    async with asyncio.timeout(100) as limit:
        await test
    # A test that waits for a CancelledError may take this one for it.
    assert not limit.expired(), "it hung until it was cancelled"


@pytest.fixture
def file(database_url: str) -> str:
    """A SQLite file with a table of the user's."""
    connection = sqlite3.connect(database_url.removeprefix("sqlite:///"))
    connection.execute("CREATE TABLE bookings (id TEXT PRIMARY KEY)")
    connection.close()
    return database_url
