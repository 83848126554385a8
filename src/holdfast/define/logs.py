"""The run's logger: silent while replaying, and every record says which run and step it belongs to."""

from __future__ import annotations

import logging

from .scope import StepInfo, current_scope


class _RunFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        scope = current_scope.get()
        record.run_id = record.step = None
        if scope is None:
            return True
        if isinstance(scope, StepInfo):
            record.run_id, record.step = scope.run.id, scope.key
            return True
        record.run_id = scope.run.id
        return not scope.is_replaying


logger = logging.getLogger("holdfast.run")
"""For use in bodies and steps. A body's line is logged once, when it first happens, not again on replay."""
logger.addFilter(_RunFilter())
