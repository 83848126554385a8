"""Log records that say which run, step and trace they belong to. Nothing here is attached by itself.

`holdfast.logger` needs no filter. For all other loggers, add the filter to a handler:

    handler = logging.StreamHandler()
    handler.addFilter(LogContext())
    handler.setFormatter(JsonFormatter())
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from holdfast.codec import plain
from holdfast.define import StepInfo, current_scope

_FIELDS = ("run_id", "workflow", "workflow_version", "step", "attempt", "trace_id", "span_id")
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LogContext(logging.Filter):
    """Gives records `run_id`, `workflow`, `workflow_version`, `step`, `attempt`, `trace_id` and `span_id`.

    Each is None where it does not apply, so that a format may name it. Outside a run, a record's own values stay.

    A record that a body logs while it replays is dropped: it was logged when it first happened. So is a record from a
    `finally` block of a body that is put away: its run has not come to that block. Attach the filter to handlers: on a
    logger it does not see records of the loggers below.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        for name in _FIELDS:
            # A value may be there already: from `extra`, or from this filter before the record went to another thread.
            record.__dict__.setdefault(name, None)
        scope = current_scope.get()
        if scope is None:
            self._trace(record, None)
            return True
        run = scope.run
        record.run_id, record.workflow, record.workflow_version = run.id, run.workflow, run.version
        if isinstance(scope, StepInfo):
            record.step, record.attempt = scope.key, scope.attempt
            self._trace(record, run.own_trace)
            return True
        self._spell(record, run.own_trace)
        return not scope.is_silent

    def _trace(self, record: logging.LogRecord, trace: str | None) -> None:
        # Only if OpenTelemetry is loaded. In a step the current span is the step's, or one that user code made in it.
        api = sys.modules.get("opentelemetry.trace")
        context = None if api is None else api.get_current_span().get_span_context()
        if context is not None and context.is_valid:
            record.trace_id, record.span_id = f"{context.trace_id:032x}", f"{context.span_id:016x}"
        else:
            self._spell(record, trace)

    def _spell(self, record: logging.LogRecord, trace: str | None) -> None:
        if trace is not None:
            record.trace_id, record.span_id = trace[3:35], trace[36:52]


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: time, level, logger, message, LogContext's values, and `extra`.

    Values are shown as in the REST API and by `--json`: a datetime is its ISO text, a set is an array, NaN is null.
    """

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        found.update((key, value) for key, value in vars(record).items() if key not in _PLAIN and value is not None)
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            found["stack"] = self.formatStack(record.stack_info)
        return json.dumps(plain(found), ensure_ascii=False)
