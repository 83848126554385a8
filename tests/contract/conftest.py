"""Databases with a table of the caller's own, every way to bring a connection to one along, and a stage on a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Client
from holdfast.store import open_store
from tests.contract import ways
from tests.contract.staging import play_on
from tests.servers import Databases, Postgres


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    """A server of our own, to be stopped and killed; whoever needs it starts it first."""
    with Postgres(durable=False) as running:
        yield running


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a SQLite file may be."""
    return tmp_path / "holdfast.db"


@pytest.fixture
def play(path: Path):
    """Run an `async def` on a stage whose store is open."""
    return lambda act: play_on(lambda: open_store(f"sqlite:///{path}"), act)


@pytest.fixture
def sqlite_url(database_url: str) -> str:
    """A SQLite file with Holdfast's tables and one of the caller's."""
    with Client(database_url):
        pass
    ways.make_table(database_url)
    return database_url


@pytest.fixture
def postgres_url(postgres: Databases) -> str:
    """A Postgres database with a table of the caller's."""
    url = postgres.create_database()
    ways.make_table(url)
    return url


@pytest.fixture(
    params=[*[("postgres_url", way) for way in ways.POSTGRES], *[("sqlite_url", way) for way in ways.SQLITE]],
    ids=lambda param: f"{param[1].__name__}-{param[0].removesuffix('_url')}",
)
def blocking(request: pytest.FixtureRequest) -> tuple[str, Callable[..., None]]:
    """A url and a blocking way."""
    name, way = request.param
    return request.getfixturevalue(name), way


@pytest.fixture(
    params=[
        *[("postgres_url", way) for way in ways.ASYNC_POSTGRES],
        *[("sqlite_url", way) for way in ways.ASYNC_SQLITE],
    ],
    ids=lambda param: f"{param[1].__name__}-{param[0].removesuffix('_url')}",
)
def awaited(request: pytest.FixtureRequest) -> tuple[str, Callable[..., Any]]:
    """A url and an async way."""
    name, way = request.param
    return request.getfixturevalue(name), way
