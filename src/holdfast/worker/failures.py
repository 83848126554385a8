"""What an attempt that failed is recorded with.

What a step returns or raises may be anything, also something whose own code fails when it is looked at. An attempt must
come to an end all the same, or its run would stay in its place for ever: so nothing here raises, but KeyboardInterrupt.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from holdfast.codec import Codec, message_of, noted, traceback_text, unreadable
from holdfast.define import pause_after
from holdfast.errors import CodecError, NotEncodable, StepFailed, StepTimeout
from holdfast.model import Instant, as_final, spoken

from .attempt import Attempt

_log = logging.getLogger("holdfast.worker")
_PLAIN = Codec()
"""For words of our own, which hold no secret, where the worker's own codec fails. Any other reads what it writes."""


def timed_out(attempt: Attempt, cause: BaseException | None = None) -> StepTimeout:
    assert attempt.timeout is not None
    error = StepTimeout(f"the step {attempt.key!r} did not end within its timeout of {spoken(attempt.timeout)}")
    error.__cause__ = cause
    return error


def weighed(attempt: Attempt, error: BaseException, now: Instant, dice: float) -> tuple[BaseException, int | None]:
    """What an attempt has failed with, and how long until the next one; None: it was the last."""
    try:
        policy, spent = attempt.command.step.retry, now - attempt.first_at
        error, pause = pause_after(error, policy, attempt.attempt, spent, dice)
        return _ordinary(error) if pause is None else error, pause
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return _untold(attempt, problem), None


def unread(attempt: Attempt, error: BaseException) -> BaseException:
    """What a step fails with whose arguments can't be decoded."""
    if type(error) is KeyboardInterrupt:
        raise error
    try:
        return _ordinary(error)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return _untold(attempt, problem)


def refused(attempt: Attempt, error: BaseException) -> BaseException:
    """What a step fails with whose result can't be encoded. It is not tried again, for its effect has happened.

    Nor is it by its workflow's policy, or a parent's.
    """
    try:
        return as_final(error if issubclass(type(error), CodecError) else _unstored(attempt, error))
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return _untold(attempt, problem)


def recorded(attempt: Attempt, error: BaseException, codec: Codec) -> bytes:
    """A failure as the journal keeps it."""
    notes = [f"in the step {attempt.key!r}, attempt {attempt.attempt}, of the run {attempt.run_id}"]
    try:
        return codec.encode_exception(error, notes=notes)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        return _PLAIN.encode_exception(_untold(attempt, problem), notes=notes)


def recorded_part(attempt: Attempt) -> bytes | None:
    """What a step that failed has done before, if that can be stored: what can't be can't be undone."""
    if attempt.done is None:
        return None
    try:
        return attempt.command.shapes.result.encode(attempt.done)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def _untold(attempt: Attempt, problem: BaseException) -> StepFailed:
    """The last resort."""
    with suppress(Exception):  # A filter of the application's may fail, too.
        _log.error("%r has ended, and what it came to can't be told", attempt, exc_info=problem)
    return as_final(
        StepFailed(f"the step {attempt.key!r} has ended, and what it came to can't be told: the worker's log says why")
    )


def _unstored(attempt: Attempt, cause: BaseException) -> NotEncodable:
    """Of what the codec itself lets pass: the result's own code raised no Exception, or the chain failed."""
    what = f"the result of the step {attempt.key!r}"
    if issubclass(type(cause), Exception):
        error = NotEncodable(f"{what} can't be stored: {type(cause).__name__}: {message_of(cause)}")
    else:
        error = unreadable(what, cause)
    error.__cause__ = cause
    return error


def _ordinary(error: BaseException) -> BaseException:
    """Itself, or what stands in for it if it is none that a body may get."""
    is_ordinary = issubclass(type(error), Exception) and not issubclass(type(error), StopIteration)
    return error if is_ordinary else as_final(_as_step_failed(error))


def _as_step_failed(error: BaseException) -> StepFailed:
    """In its place, and not on top of it: in its words, with its notes, where it was raised, and what led to it."""
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    failed = StepFailed(message_of(error), type=name, traceback=traceback_text(error))
    for note in noted(error):
        failed.add_note(note)
    failed.add_note(failed.traceback or f"it was raised as {name}")
    failed.__cause__, failed.__context__ = error.__cause__, error.__context__
    failed.__suppress_context__ = error.__suppress_context__
    return failed
