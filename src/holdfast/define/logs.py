"""The run's logger: silent while a body replays or is put away. Every record names its run, step and trace."""

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
        if (trace := run.own_trace) is not None:
            record.trace_id = trace[3:35]
        if isinstance(scope, StepInfo):
            record.step = scope.key
            return True
        return not scope.is_silent


logger = logging.getLogger("holdfast.run")
"""For use in bodies and steps. What a body logs in a turn that was committed is not logged again on replay.

A turn that was not committed is taken again, and logs again. The first turn has no commit of its own: it is committed
with the next one.
"""
logger.addFilter(_RunFilter())
