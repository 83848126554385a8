"""Clients on real SQLite files. The worker is played by hand (see hands.py): each test decides what happens when."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.client import AsyncClient
from tests.client.hands import Hands


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
