"""An enum of a module that is loaded where runs are executed, and not where they are shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from types import ModuleType
from typing import Any

import holdfast
from holdfast import workflow

_NAME = "tests_colours_of_a_worker"


@contextmanager
def loaded() -> Iterator[None]:
    """Inside, the module is there; afterwards, nobody finds it any more."""
    module = ModuleType(_NAME)
    module.__dict__["Colour"] = Enum("Colour", {"RED": 1}, module=_NAME)
    sys.modules[_NAME] = module
    try:
        yield
    finally:
        del sys.modules[_NAME]


@workflow
async def paints() -> Any:
    red = sys.modules[_NAME].Colour.RED
    holdfast.set_value("colour", red)
    holdfast.emit("colours", {"first": red})
    return {"colour": red, "both": (red, red)}
