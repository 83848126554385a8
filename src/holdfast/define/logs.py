"""The run's logger: silent while a body replays or is put away. Every record says what run, step and trace it is of."""

from __future__ import annotations

import logging

from .scope import StepInfo, current_scope


class _RunFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        scope = current_scope.get()
        record.run_id = record.workflow = record.step = record.trace_id = None
        if scope is None:
            return True
        run = scope.run
        record.run_id, record.workflow = run.id, run.workflow
        if (trace := run.trace) is not None:
            record.trace_id = trace[3:35]
        if isinstance(scope, StepInfo):
            record.step = scope.key
            return True
        return not scope.is_silent


logger = logging.getLogger("holdfast.run")
"""For use in bodies and steps. A body's line is logged once, when it first happens, not again on replay."""
logger.addFilter(_RunFilter())
