"""What a worker logs of failed runs and attempts: one line each, when it happens and never on a replay.

Retries are everyday life, and a step that has failed for good may be what its body expects: both are logged at INFO. A
run that has failed needs somebody to look at it: it is logged as an error.

Nothing here keeps an attempt from its end, even if its error can't be described.
"""

from __future__ import annotations

import logging
import traceback
from contextlib import suppress

from holdfast.codec import Codec, is_users, last_place, message_of, place_of
from holdfast.define import HouseLogger, RunInfo
from holdfast.errors import StepFailed
from holdfast.model import spoken

from .attempt import Attempt
from .held import Held

_log = HouseLogger("holdfast.worker")
_LONGEST = 300


def attempt_retrying(attempt: Attempt, error: BaseException, pause: int) -> None:
    if _log.isEnabledFor(logging.INFO):
        with suppress(Exception):
            told = _described(error, _place(error))
            _log.info("%r failed with %s; it is tried again %s", attempt, told, _when(pause), exc_info=_trace(error))


def step_failed(attempt: Attempt, error: BaseException) -> None:
    if _log.isEnabledFor(logging.INFO):
        with suppress(Exception):
            told = _described(error, _place(error))
            _log.info("%r failed for good with %s", attempt, told, exc_info=_trace(error))


def run_retrying(run: RunInfo, codec: Codec, stored: bytes, pause: int) -> None:
    if _log.isEnabledFor(logging.INFO):
        _log.info("%r failed with %s; it is tried again %s", run, _stored(codec, stored), _when(pause))


def run_failed(run: RunInfo, codec: Codec, stored: bytes | None) -> None:
    if _log.isEnabledFor(logging.ERROR):
        _log.error("%r failed with %s", run, _stored(codec, stored) if stored else "no error that was recorded")


def journal_grown(held: Held) -> None:
    """Warn that a run's journal has grown long."""
    _log.warning(
        "%r has taken in %d inputs, and its journal_limit is %d; continue_as_new begins afresh",
        held.info,
        held.info.journal_length,
        held.workflow.journal_limit,
    )


def _stored(codec: Codec, stored: bytes) -> str:
    return _described(codec.tell_exception(stored), place_of(codec, stored))


def _described(error: BaseException, place: str | None) -> str:
    name = error.type.rpartition(".")[2] if isinstance(error, StepFailed) and error.type else type(error).__name__
    said = message_of(error).strip().partition("\n")[0][:_LONGEST]
    return f"{name}{f': {said}' if said else ''}{f' ({place})' if place else ''}"


def _place(error: BaseException) -> str | None:
    """The innermost frame of the user's own code, as file:line."""
    if error.__traceback__ is None and isinstance(error, StepFailed):
        return last_place(error.traceback)
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_users(frame.f_code.co_filename):
            found = f"{frame.f_code.co_filename}:{line}"
    return found


def _trace(error: BaseException) -> BaseException | None:
    return error if _log.isEnabledFor(logging.DEBUG) else None


def _when(pause: int) -> str:
    return f"in {spoken(pause)}" if pause > 0 else "at once"
