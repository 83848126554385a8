"""What a decorator above @step or @workflow hides: to everybody but Python it is a plain function."""

from __future__ import annotations

import inspect
from typing import Any

from .steps import Step
from .workflows import Workflow


def wrong_workflow(thing: object) -> str:
    """What to say of something that was given as a workflow and is none."""
    return f"expected a function decorated with @workflow{covered(thing, Workflow)}"


def covered(thing: Any, *expected: type) -> str:
    """What to add if it is what was expected, below another decorator."""
    below = inspect.unwrap(thing, stop=lambda one: isinstance(one, (Step, Workflow)))
    if not isinstance(below, expected):
        return ""
    word = "@step" if isinstance(below, Step) else "@workflow"
    return f"; {below!r} is hidden by another decorator above it: have {word} on top"
