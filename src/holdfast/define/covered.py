"""Finding a step or a workflow that another decorator hides: to everybody but Python the result is a plain function."""

from __future__ import annotations

import inspect
from typing import Any

from .steps import Step
from .workflows import Workflow


def wrong_workflow(thing: object) -> str:
    """The message for something that was given as a workflow and is none."""
    return f"expected a function decorated with @workflow{covered(thing, Workflow)}"


def covered(thing: Any, *expected: type) -> str:
    """The words to add to a message if an expected thing is hidden below another decorator; else empty."""
    below = inspect.unwrap(thing, stop=lambda one: isinstance(one, (Step, Workflow)))
    if not isinstance(below, expected):
        return ""
    word = "@step" if isinstance(below, Step) else "@workflow"
    return f"; {below!r} is hidden by another decorator above it: have {word} on top"
