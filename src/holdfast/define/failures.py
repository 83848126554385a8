"""Whether an attempt that failed is followed by another one: the same for a step and for an item of a map."""

from __future__ import annotations

from holdfast.errors import DefinitionError, MisplacedCall
from holdfast.model import Retry

_LEFT_COROUTINE = ("coroutine raised StopIteration",)
_FINAL = (StopIteration, MisplacedCall, DefinitionError)
"""The last two say that a resource was not given, or that a step waits durably: another attempt would raise them
again."""


def pause_after(
    error: BaseException, policy: Retry, attempt: int, spent: int, dice: float
) -> tuple[BaseException, int | None]:
    """The error to record, and the pause until the next attempt; None if this was the last one.

    An error that is no Exception, such as a stray CancelledError or SystemExit, is never tried again.
    """
    if type(error) is RuntimeError and error.args == _LEFT_COROUTINE:
        # Python turns a StopIteration that leaves a coroutine into this. User code may make another one itself.
        error = error.__cause__ or error
    # By the type: `isinstance` asks for `__class__`, which may be a property that raises.
    if not issubclass(type(error), Exception) or issubclass(type(error), _FINAL):
        return error, None
    try:
        return error, policy.delay(error, attempt, spent, dice)
    except Exception as broken:
        return broken, None
