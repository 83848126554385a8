"""What an attempt has failed with, and whether it is tried again: alike for a step and for an item of a map."""

from __future__ import annotations

from holdfast.errors import DefinitionError, MisplacedCall
from holdfast.model import Retry

_LEFT_COROUTINE = ("coroutine raised StopIteration",)
_FINAL = (StopIteration, MisplacedCall, DefinitionError)
"""The latter two say that a resource was not given, or that a step waits durably: a further try finds that again."""


def pause_after(
    error: BaseException, policy: Retry, attempt: int, spent: int, dice: float
) -> tuple[BaseException, int | None]:
    """What an attempt has failed with, and how long until the next one; None: it was the last.

    What is no Exception, such as a stray CancelledError or SystemExit, is not tried again, whatever the policy says.
    """
    if type(error) is RuntimeError and error.args == _LEFT_COROUTINE:
        # What Python makes of a StopIteration that leaves a coroutine; user code may make another one of its own.
        error = error.__cause__ or error
    # By its type: `isinstance` asks for its `__class__`, which may be a property that raises.
    if not issubclass(type(error), Exception) or issubclass(type(error), _FINAL):
        return error, None
    try:
        return error, policy.delay(error, attempt, spent, dice)
    except Exception as broken:
        return broken, None
