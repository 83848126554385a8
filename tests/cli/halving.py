"""A workflow of one step that may fail, for commands about runs to be tried on."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from holdfast import Client, Retry, step, workflow
from holdfast.cli import main


@step(retry=Retry(attempts=1))
async def divide(number: int) -> int:
    return 100 // number


@workflow
async def halve(number: int) -> int:
    return await divide(number)


def failed(client: Client, *, key: str | None = None) -> str:
    """The id of a run that has failed just now."""
    with pytest.raises(holdfast.RunFailed) as raised:
        holdfast.run(halve, 0, key=key, url=client.url)
    return raised.value.run_id


def with_three_runs(client: Client) -> Client:
    """With a completed run, a failed one and a live one."""
    holdfast.run(halve, 4, key="first")
    with pytest.raises(holdfast.RunFailed):
        holdfast.run(halve, 0, key="second")
    client.start(halve, 5, key="third", delay="1h")
    return client


MODULE = """
from holdfast import Retry, step, workflow

@step(retry=Retry(attempts=1))
async def divide(number: int) -> int:
    return 100 // number

@workflow{options}
async def halve(number: int) -> int:
    {body}
"""
SAME = "return await divide(number)"


def code(tmp_path: Path, name: str, body: str = SAME, options: str = "") -> str:
    """A file with the same workflow, or with one that differs from it."""
    path = tmp_path / f"{name}.py"
    path.write_text(MODULE.format(body=body, options=options))
    return path.name


def exported(tmp_path: Path, *options: str) -> Path:
    """A file of runs that `export` wrote."""
    file = tmp_path / "runs.jsonl"
    assert main(["export", "--output", str(file), *options]) == 0
    return file
