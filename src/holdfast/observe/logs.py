"""Log records that say which run, step and trace they belong to. Nothing here is set up unless somebody attaches it.

`holdfast.logger` says so by itself. For every other logger, the filter goes on a handler:

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

    They are None where there is none of it, so that a format may name them. What a record says of them itself stays, if
    it was logged outside a run.

    A record that a body logs while it replays is dropped: it was logged when it first happened. So is what the
    `finally` blocks of a body log that is put away: its run has not come there. Attach it to handlers: a filter on a
    logger does not see what comes from the loggers below it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        for name in _FIELDS:
            # It may be known already: by `extra`, or by a filter that saw it before another thread took it over.
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
        # Only what is loaded anyway is asked: in a step it is the step's span, or one that user code has made in it.
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
    """A record as one line of JSON: time, level, logger, message, what LogContext found, and what `extra` held.

    Values are as the REST API and `--json` show them: a datetime is its ISO text, a set is an array, NaN is null.
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
