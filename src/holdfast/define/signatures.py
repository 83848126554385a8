"""What a function must be able to take, found out where it is decorated: its first call may be days away.

A signature that can't be read, as that of some functions written in C, is let through.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from holdfast.errors import DefinitionError

_BY_KEYWORD = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)


def check_takes_connection(fn: Callable[..., Any], name: str) -> None:
    """Refuse a transactional step that a connection can't be passed to."""
    first = next(iter(inspect.signature(fn).parameters.values()), None)
    if first is None or first.kind in _BY_KEYWORD:
        raise DefinitionError(
            f"step {name!r}: with transaction=True its function takes a connection first, by position:"
            f" def {name}(connection, ...)"
        )


def check_takes_result(undo: Callable[..., Any], undo_name: str, name: str, *, is_transactional: bool) -> None:
    """Refuse a compensation that can't be called with the result of its step alone."""
    if not _takes(undo, 2 if is_transactional else 1):
        expected = f"{undo_name}({'connection, ' if is_transactional else ''}result)"
        raise DefinitionError(
            f"step {name!r}: compensate={undo_name}: it is called with the step's result, as one argument by position;"
            f" write def {expected}, or register a call with other arguments in the body:"
            f" holdfast.compensate({undo_name}, ...)"
        )


def check_takes_payload(fn: Callable[..., Any], name: str, event: str) -> None:
    """Refuse a workflow for events that can't be called with an event's payload alone."""
    if not _takes(fn, 1):
        raise DefinitionError(
            f"workflow {name!r}: with on_event={event!r} its function is called with the event's payload, as one "
            f"argument by position: def {name}(payload)"
        )


def _takes(fn: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many arguments by position and no others."""
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True
