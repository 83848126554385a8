"""Refusing methods: the arguments of a call are stored, and an object with its pools and clients can't be."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from holdfast.errors import DefinitionError


def refuse_method(fn: Callable[..., Any], what: str, instead: str = "") -> None:
    """Raise if the function is written as a method. A bound method is allowed, and so is a method whose `self` is
    annotated."""
    home = fn.__qualname__.rpartition(".")[0] if inspect.isfunction(fn) else ""
    if not home or home.endswith("<locals>"):
        return
    first = next(iter(inspect.signature(fn).parameters.values()), None)
    if first is None or first.name not in ("self", "cls") or first.annotation is not first.empty:
        return
    raise DefinitionError(
        f"{what} is a method, and its {first.name!r} would have to be stored with the arguments; write a function, or "
        f"a @staticmethod, that is given what it needs, and have pools and clients as resources{instead}"
    )
