"""Defaults of a body's parameters that a body can change, such as a list: every replay gets fresh copies of them.

Python makes a default once, and what one call changes in it the next call finds. Arguments are copies, so that a body
may do with them what it likes, and to the body a default is an argument like any other.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable
from typing import Any


def changeable(fn: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of a function that has such a default, else None."""
    signature = inspect.signature(fn)
    return signature if any(_can_change(one.default) for one in signature.parameters.values()) else None


def filled(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The call with the defaults that it leaves out; those that can be changed are copies."""
    bound = signature.bind(*args, **kwargs)
    given = set(bound.arguments)
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        if name not in given and _can_change(value):
            with contextlib.suppress(Exception):  # it has no copy, such as a dict that holds a lock
                bound.arguments[name] = copy.deepcopy(value)
    return bound.args, bound.kwargs


def _can_change(value: object) -> bool:
    """Whether it is a value, and not an object that is compared by identity: what has no hash may change."""
    return type(value).__hash__ is None
