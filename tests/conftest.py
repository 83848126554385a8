"""What every test may use. Hypothesis has no deadline here, and repeats itself exactly where CI is set."""

import asyncio
import gc
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.servers import Databases, provide

hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") == "true" else "here")


def pytest_collection_finish() -> None:
    """What is there before the first test stays there: whoever collects garbage looks at what came since."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test may be an `async def`: each gets an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """The address of a SQLite file that doesn't exist yet."""
    return f"sqlite:///{tmp_path / 'holdfast.db'}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Databases]:
    """A Postgres for the whole session. Take a database from it; never stop it: a test that does starts its own."""
    server = provide(durable=False)
    try:
        yield server
    finally:
        server.close()
