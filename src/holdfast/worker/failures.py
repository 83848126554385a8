"""What is recorded for an attempt that failed.

A step may return or raise any object, even one whose own code fails when it is looked at. The attempt must come to an
end all the same, or its run would keep its place for ever: so nothing here raises, except KeyboardInterrupt.
"""

from __future__ import annotations

from holdfast.codec import Codec, message_of, noted, traceback_text, unreadable
from holdfast.define import HouseLogger, chunked, pause_after
from holdfast.errors import CodecError, NotEncodable, StepFailed, StepTimeout
from holdfast.model import Instant, Retry, as_final, spoken

from .attempt import Attempt

_log = HouseLogger("holdfast.worker")
_PLAIN = Codec()
"""For our own messages, which hold no secret, where the worker's codec fails. Any other codec can read what this one
writes."""


def timed_out(attempt: Attempt, cause: BaseException | None = None) -> StepTimeout:
    assert attempt.timeout is not None
    error = StepTimeout(f"the step {attempt.key!r} did not end within its timeout of {spoken(attempt.timeout)}")
    error.__cause__ = cause
    return error


def weighed(attempt: Attempt, error: BaseException, now: Instant, dice: float) -> tuple[BaseException, int | None]:
    """The error to record, and the pause until the next attempt; None if this was the last one."""
    try:
        spent = now - attempt.first_at
        error, pause = pause_after(error, _policy_of(attempt), attempt.attempt, spent, dice)
        return _ordinary(error) if pause is None else error, pause
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return _untold(attempt, problem), None


def _policy_of(attempt: Attempt) -> Retry:
    """The step's own. A chunk of a map has tried its items as their step says; if it is not for an item that it failed,
    but for its middleware, say, it is itself tried again as that step says."""
    step = attempt.command.step
    chunk = None if attempt.is_spent else chunked(step)
    return step.retry if chunk is None else chunk[0].retry


def unread(attempt: Attempt, error: BaseException) -> BaseException:
    """The error of a step whose arguments can't be decoded."""
    if type(error) is KeyboardInterrupt:
        raise error
    try:
        return _ordinary(error)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return _untold(attempt, problem)


def refused(attempt: Attempt, error: BaseException) -> BaseException:
    """The error of a step whose result can't be encoded. It is final: the step's effect has happened.

    So no policy tries again after it, be it the step's, its workflow's or a parent's.
    """
    try:
        return as_final(error if issubclass(type(error), CodecError) else _unstored(attempt, error))
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return _untold(attempt, problem)


def recorded(attempt: Attempt, error: BaseException, codec: Codec) -> bytes:
    """An error in the form in which the journal keeps it."""
    notes = [f"in the step {attempt.key!r}, attempt {attempt.attempt}, of the run {attempt.run_id}"]
    try:
        return codec.encode_exception(error, notes=notes)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return _PLAIN.encode_exception(_untold(attempt, problem), notes=notes)


def recorded_part(attempt: Attempt) -> bytes | None:
    """What a map's chunk had done before it failed, to be undone; None if there is nothing, or it can't be stored."""
    if attempt.done is None:
        return None
    try:
        return attempt.command.shapes.result.encode(attempt.done)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def _untold(attempt: Attempt, problem: BaseException) -> StepFailed:
    """The error that stands for one that can't be recorded."""
    _log.error("%r has ended, but its outcome can't be recorded", attempt, exc_info=problem)
    return as_final(
        StepFailed(f"the step {attempt.key!r} has ended, but its outcome can't be recorded: the worker's log says why")
    )


def _unstored(attempt: Attempt, cause: BaseException) -> NotEncodable:
    """The error for a result whose own code raised no Exception, or to which the codec's chain could not be applied."""
    what = f"the result of the step {attempt.key!r}"
    if issubclass(type(cause), Exception):
        error = NotEncodable(f"{what} can't be stored: {type(cause).__name__}: {message_of(cause)}")
    else:
        error = unreadable(what, cause)
    error.__cause__ = cause
    return error


def _ordinary(error: BaseException) -> BaseException:
    """The error, or a StepFailed in its place if a body must not get it."""
    is_ordinary = issubclass(type(error), Exception) and not issubclass(type(error), StopIteration)
    return error if is_ordinary else as_final(_as_step_failed(error))


def _as_step_failed(error: BaseException) -> StepFailed:
    """A StepFailed in the place of an error, with the same message, notes, traceback and causes."""
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    failed = StepFailed(message_of(error), type=name, traceback=traceback_text(error))
    for note in noted(error):
        failed.add_note(note)
    failed.add_note(failed.traceback or f"it was raised as {name}")
    failed.__cause__, failed.__context__ = error.__cause__, error.__context__
    failed.__suppress_context__ = error.__suppress_context__
    return failed
