"""How a task of a body has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.codec import message_of
from holdfast.errors import Continued, IOInBody, StepFailed


def failure_of(main: asyncio.Task[Any]) -> BaseException | None:
    """The error that the body ended with. One that was thrown in a task group comes in a group, and means the same."""
    error = main.exception()
    try:
        if not isinstance(error, BaseExceptionGroup):
            return error
    except Exception:
        # `isinstance` asks for `__class__`, which may be a property that raises. Then it is a failure like any other.
        assert error is not None
        return StepFailed(message_of(error), type=f"{type(error).__module__}.{type(error).__qualname__}")
    if (refused := error.subgroup(IOInBody)) is not None:
        return _first(refused)
    continued, others = error.split(Continued)
    # A task failed while the task group was leaving for the next run: that is a failure of this run.
    return error if continued is None else others or _first(continued)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def lost_failures(tasks: Iterable[asyncio.Task[Any]]) -> Iterator[tuple[str, BaseException]]:
    """The failures of tasks that nobody has looked at, with the tasks' names. Each is returned once."""
    for task in tasks:
        if is_unseen(task) and (error := task.exception()) is not None:
            yield task.get_name(), error


def is_unseen(task: asyncio.Task[Any]) -> bool:
    """Whether the task has failed and nobody has looked at its error."""
    # asyncio itself decides by this attribute whether to report the task.
    return task._log_traceback


def came_to_its_end(task: asyncio.Task[Any] | None) -> bool:
    """Whether the task was neither cancelled nor failed. continue_as_new is an end, and so is having no task."""
    return task is None or (task.done() and not task.cancelled() and isinstance(failure_of(task), Continued | None))
