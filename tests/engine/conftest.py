"""Runs taken by hand are put away when their test has ended, and no test finds what another one left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from holdfast.define import Workflow
from tests.engine.alerts import ALERTS
from tests.engine.drive import Drive


class Begin(Protocol):
    """What the fixture gives: begin a run of a workflow."""

    def __call__(self, workflow: Workflow[..., Any], *args: Any, **kwargs: Any) -> Drive: ...


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Begin a run, taken by hand."""
    made: list[Drive] = []

    def begin(workflow: Workflow[..., Any], *args: Any, **kwargs: Any) -> Drive:
        drive = Drive(workflow, *args, **kwargs)
        made.append(drive)
        return drive

    yield begin
    for one in made:
        one.close()


@pytest.fixture(autouse=True)
def no_alerts() -> None:
    """No body of another test has said anything."""
    ALERTS.clear()
