"""How a task of a body has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.codec import message_of
from holdfast.errors import Continued, IOInBody, StepFailed


def failure_of(main: asyncio.Task[Any]) -> BaseException | None:
    """What the body ended with. What is thrown in a task group comes out of it in a group, and means what it meant."""
    error = main.exception()
    try:
        if not isinstance(error, BaseExceptionGroup):
            return error
    except Exception:
        # That asks for a `__class__`, which may be a property that raises. It is a failure like any other.
        assert error is not None
        return StepFailed(message_of(error), type=f"{type(error).__module__}.{type(error).__qualname__}")
    if (refused := error.subgroup(IOInBody)) is not None:
        return _first(refused)
    continued, others = error.split(Continued)
    # A task that failed while the block was on its way to the next run is a failure of this one.
    return error if continued is None else others or _first(continued)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def lost_failures(tasks: Iterable[asyncio.Task[Any]]) -> Iterator[tuple[str, BaseException]]:
    """What tasks have failed with that nobody has looked at, by their names. Each is told once."""
    for task in tasks:
        if is_unseen(task) and (error := task.exception()) is not None:
            yield task.get_name(), error


def is_unseen(task: asyncio.Task[Any]) -> bool:
    """Whether it has failed, and nobody has looked at what with."""
    # By what asyncio itself decides whether to report it.
    return task._log_traceback


def came_to_its_end(task: asyncio.Task[Any] | None) -> bool:
    """Whether it was neither cancelled nor failed; so was whatever ran in no task. To go on as a new run is an end."""
    return task is None or (task.done() and not task.cancelled() and isinstance(failure_of(task), Continued | None))
