"""The run's logger, silent while a body replays or is put away, and the loggers in which the house speaks of runs.

Every record of the run's logger names its run, step and trace.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from .scope import StepInfo, current_scope


class _RunFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        scope = current_scope.get()
        record.run_id = record.workflow = record.step = record.trace_id = None
        if scope is None:
            return True
        run = scope.run
        record.run_id, record.workflow = run.id, run.workflow
        if (trace := run.own_trace) is not None:
            record.trace_id = trace[3:35]
        if isinstance(scope, StepInfo):
            record.step = scope.key
            return True
        return not scope.is_silent


def _silenced(one: logging.Logger) -> logging.Logger:
    """Let the filter see what this logger and its children log: logging asks only the filters of the logger called."""
    if _FILTER in one.filters:
        return one
    one.addFilter(_FILTER)
    make = one.getChild
    one.getChild = lambda suffix: _silenced(make(suffix))  # type: ignore[method-assign]  # whatever class applications set
    return one


_FILTER = _RunFilter()
logger = _silenced(logging.getLogger("holdfast.run"))
"""For use in bodies and steps. What a body logs in a turn that was committed is not logged again on replay.

A turn that was not committed is taken again, and logs again. The first turn has no commit of its own: it is committed
with the next one. Children made by `logger.getChild()` are as silent; loggers of any other name are not.
"""


class HouseLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger of the house's own, which never raises: a run must go on even if a filter of the application's fails."""

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(name))

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        with suppress(Exception):
            # One frame up: the record names the line that speaks, and not this one.
            super().log(level, msg, *args, stacklevel=2, **kwargs)
