"""`holdfast.run` logs when its run can't end because no worker serves the workflow of a child."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import holdfast
from holdfast import Worker, script, workflow
from holdfast.define import Workflow
from tests.worker.stage import PATIENCE, until


@workflow
async def kid(n: int) -> int:
    return n + 1


class Lazily:
    """Holds a workflow where no search of globals and closures finds it."""

    def __init__(self, found: Any) -> None:
        self.found = found


lazily = Lazily(kid)


@workflow
async def parent(n: int) -> int:
    found: int = await lazily.found(n)
    return found


@workflow
def blocking_parent(n: int) -> int:
    found: int = lazily.found.start(n).result()
    return found


@workflow
async def grandparent(n: int) -> int:
    return await parent(n)


@workflow
async def mapping(n: int) -> int:
    [found] = await holdfast.map(lazily.found, [n])
    assert isinstance(found, int)
    return found


@workflow
async def ending(n: int) -> int:
    lazily.found.continue_as_new(n)
    raise AssertionError


@workflow
async def patient(n: int) -> int:
    await holdfast.wait_for_signal("enough")
    return n + 1


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows whenever it has looked what nobody has."""
    found: list[str] = []
    look = script._tell_unserved

    async def counted(client: Any, run_id: str, *others: Any) -> None:
        await look(client, run_id, *others)
        found.append(run_id)

    monkeypatch.setattr(script, "_tell_unserved", counted)
    monkeypatch.setattr(script, "_SELDOM", 2)
    monkeypatch.setattr(script, "_POLL", 0.02)
    return found


@asynccontextmanager
async def running(body: Workflow[..., int], url: str) -> AsyncIterator[None]:
    """A script beside the test. It ends with a worker for the child: its thread would else keep the process."""
    ended = asyncio.create_task(asyncio.to_thread(holdfast.run, body, 1, url=url))
    try:
        yield
    finally:
        async with Worker(url, workflows=[kid]):
            assert await asyncio.wait_for(ended, PATIENCE) == 2


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "waits for a worker that has" in one.getMessage()]


@pytest.mark.parametrize(
    "body", [parent, blocking_parent, grandparent, mapping, ending], ids=lambda body: str(body.name)
)
async def test_a_child_workflow_that_no_worker_serves_is_named_and_its_parent_goes_on_once_one_does(
    database_url, caplog, body
):
    async with running(body, database_url):
        await until(lambda: told(caplog))
        [line] = told(caplog)
    assert "the workflow 'kid' in version '1' on queue 'default'" in line
    assert line.endswith("call it by that name, or run a worker that has it")


async def test_a_child_workflow_that_no_worker_serves_is_logged_once(database_url, caplog, looks):
    async with running(parent, database_url):
        await until(lambda: told(caplog))
        seen = len(looks)
        await until(lambda: len(looks) > seen + 5)
        assert len(told(caplog)) == 1


async def test_a_child_workflow_that_another_worker_serves_is_not_logged(database_url, caplog, looks, monkeypatch):
    monkeypatch.setattr(lazily, "found", patient.options(id="patient"))
    async with (
        holdfast.AsyncClient(database_url) as client,
        Worker(client, workflows=[patient]),
        running(parent, database_url),
    ):
        await until(lambda: len(looks) > 10)
        await client.signal("patient", "enough")
    assert told(caplog) == []
