"""Clients on real SQLite files. The worker is played by hand (see hands.py): each test decides what happens when."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from holdfast.client import AsyncClient
from tests.client.hands import Hands


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test may be an `async def`: each gets an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture
def client(database_url: str):
    """A client that is closed when the test has ended."""
    client = AsyncClient(database_url)
    yield client
    asyncio.run(client.close())


@pytest.fixture
def hands(client: AsyncClient) -> Hands:
    """A worker for that client's store."""
    return Hands(client)
