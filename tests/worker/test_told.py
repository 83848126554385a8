"""What a worker logs of attempts, steps and runs that fail."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from holdfast import Retry, RunFailed, step, workflow
from holdfast.testing import Environment
from tests.worker.stage import stage

AT_ONCE = Retry(attempts=2, initial=0, jitter=0)


class Flaky(Exception):
    """An error worth another try."""


@step(retry=AT_ONCE)
async def always_fails() -> None:
    raise Flaky("no luck\ntoday")


@workflow
async def unlucky() -> None:
    await always_fails()


@workflow
async def careful() -> str:
    try:
        await always_fails()
    except Flaky:
        return "caught"
    return "lucky"


@workflow(retry=AT_ONCE)
async def stubborn() -> None:
    raise Flaky("once more")


async def told(url: str, body: Any, caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """What the worker has logged until a run of the body has ended."""
    with caplog.at_level(logging.INFO, logger="holdfast.worker"):
        async with stage(url, body) as on:
            await (await on.client.start(body, id="this-one")).wait()
    return logged(caplog)


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    lines = [(one.levelname, one.getMessage()) for one in caplog.records if one.name == "holdfast.worker"]
    return [(level, line) for level, line in lines if "this-one" in line]


async def test_each_failure_is_logged_once_at_the_level_of_its_gravity(database_url, caplog):
    lines = await told(database_url, unlucky, caplog)
    assert [level for level, _ in lines] == ["INFO", "INFO", "ERROR"]
    where = f"Flaky: no luck ({__file__}:{always_fails.fn.__code__.co_firstlineno + 2})"
    assert [line for _, line in lines] == [
        f"<step always_fails, attempt 1, of <run this-one of unlucky version 1>> failed with {where}; "
        "it is tried again at once",
        f"<step always_fails, attempt 2, of <run this-one of unlucky version 1>> failed for good with {where}",
        f"<run this-one of unlucky version 1> failed with {where}",
    ]


async def test_no_failure_is_logged_again_when_a_body_is_replayed(caplog):
    with caplog.at_level(logging.INFO, logger="holdfast.worker"):
        async with Environment([unlucky]) as env:
            await (await env.client.start(unlucky, id="this-one")).wait()
    assert [level for level, _ in logged(caplog)] == ["INFO", "INFO", "ERROR"]


async def test_a_run_that_catches_the_failure_of_a_step_is_not_logged_as_failed(database_url, caplog):
    lines = await told(database_url, careful, caplog)
    assert [level for level, _ in lines] == ["INFO", "INFO"]


async def test_a_run_that_is_tried_again_as_a_whole_is_logged(database_url, caplog):
    lines = await told(database_url, stubborn, caplog)
    assert [level for level, _ in lines] == ["INFO", "ERROR"]
    assert "Flaky: once more" in lines[0][1]
    assert lines[0][1].endswith("it is tried again at once")


@pytest.mark.parametrize(("level", "has_traceback"), [(logging.INFO, False), (logging.DEBUG, True)])
async def test_a_traceback_is_logged_only_at_debug_level(database_url, caplog, level, has_traceback):
    with caplog.at_level(level, logger="holdfast.worker"):
        async with stage(database_url, unlucky) as on:
            with pytest.raises(RunFailed):
                await (await on.client.start(unlucky)).result()
    records = [one for one in caplog.records if "failed for good" in one.getMessage()]
    assert [bool(one.exc_info) for one in records] == [has_traceback]
