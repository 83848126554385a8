"""What is told about an attempt that failed."""

from __future__ import annotations

from holdfast.codec import message_of, traceback_text
from holdfast.errors import NotEncodable, StepFailed, StepTimeout
from holdfast.model import spoken

from .attempt import Attempt


def timed_out(attempt: Attempt, cause: BaseException | None = None) -> StepTimeout:
    assert attempt.timeout is not None
    error = StepTimeout(f"the step {attempt.key!r} did not end within its timeout of {spoken(attempt.timeout)}")
    error.__cause__ = cause
    return error


def unreadable(attempt: Attempt, cause: Exception) -> NotEncodable:
    """A result whose own code failed while it was read, such as a property of a detached object."""
    error = NotEncodable(
        f"the result of the step {attempt.key!r} can't be stored: {type(cause).__name__}: {cause}; "
        "return plain data, read while its source is open"
    )
    error.__cause__ = cause
    return error


def as_step_failed(error: BaseException) -> StepFailed:
    """In its place, and not on top of it: in its words, with its notes, where it was raised, and what led to it."""
    name = f"{type(error).__module__}.{type(error).__qualname__}"
    failed = StepFailed(message_of(error), type=name, traceback=traceback_text(error))
    for note in getattr(error, "__notes__", ()):
        failed.add_note(str(note))
    failed.add_note(failed.traceback or f"it was raised as {name}")
    failed.__cause__, failed.__context__ = error.__cause__, error.__context__
    failed.__suppress_context__ = error.__suppress_context__
    return failed


def notes_of(attempt: Attempt) -> list[str]:
    return [f"in the step {attempt.key!r}, attempt {attempt.attempt}, of the run {attempt.run_id}"]
