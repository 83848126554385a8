"""A report of divergence names the line also where the step was handed to a task."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from holdfast import workflow
from holdfast.define import Workflow
from holdfast.errors import JournalDiverged
from tests.engine.samples import double, echo


@workflow
async def before() -> int:
    await double(1)
    return await double(2)


@workflow
async def gathered() -> None:
    await asyncio.gather(double(1), echo("new"))  # changed


@workflow
async def in_a_task() -> None:
    task = asyncio.create_task(echo("new"))  # changed
    await task


@workflow
async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(echo("new"))  # changed


@workflow
async def under_wait_for() -> None:
    await asyncio.wait_for(echo("new"), 5)  # changed


@pytest.mark.parametrize("changed", [gathered, in_a_task, in_a_group, under_wait_for], ids=lambda one: one.name)
def test_a_step_handed_to_a_task_is_reported_with_its_line(begin, changed: Workflow[..., Any]):
    lines, first = inspect.getsourcelines(changed.fn)
    line = first + next(number for number, text in enumerate(lines) if "# changed" in text)
    drive = begin(before)
    drive.complete("double")
    with pytest.raises(JournalDiverged, match=f"test_divergence_lines.py:{line}"):
        drive.replay(workflow=changed)
