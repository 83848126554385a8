"""A span that is current while something executes, and exported when that has ended.

Loaded only when tracing is asked for: this module imports OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from traceback import format_exception
from typing import Any

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from holdfast.codec import message_of
from holdfast.define import RunInfo, StepInfo
from holdfast.model import RunRecord

UNSET = Status(StatusCode.UNSET)
_SCOPE = InstrumentationScope("holdfast")


class LiveSpan(trace.Span, ReadableSpan):
    """A span that is current while something executes, and exported when that has ended."""

    # The names are those that ReadableSpan reads.
    __slots__ = ("_context", "_end_time", "_extra", "_parent", "_said", "_start_time")
    # What most spans have in common is the class's.
    _name: str
    _kind = SpanKind.CONSUMER
    _events: Sequence[Event] = ()
    _links: Sequence[trace.Link] = ()
    _status = UNSET
    _instrumentation_info = None
    # What all spans of one tracer have in common is that of classes of their own, which `Spans` derives.
    _instrumentation_scope = _SCOPE
    _resource: Any
    _limits: SpanLimits

    _context: SpanContext
    _end_time: int | None
    _extra: BoundedAttributes | None
    """What user code has said of it."""
    _said: Any
    """What we say of it."""

    @property
    def _attributes(self) -> dict[str, Any]:  # type: ignore[override]  # nobody writes it
        # Put together for those who read it, on whose thread that is: most spans go to an exporter, and some nowhere.
        found = self._told()
        return found if self._extra is None else {**found, **self._extra}

    def _told(self) -> dict[str, Any]:
        found: dict[str, Any] = self._said
        return found

    def get_span_context(self) -> SpanContext:
        return self._context

    def is_recording(self) -> bool:
        return self._end_time is None

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        for key, value in attributes.items():
            self.set_attribute(key, value)

    def set_attribute(self, key: str, value: Any) -> None:
        if self._end_time is None:
            if self._extra is None:
                limits = self._limits
                self._extra = BoundedAttributes(
                    limits.max_span_attributes, {}, immutable=False, max_value_len=limits.max_span_attribute_length
                )
            self._extra[key] = value

    def add_event(self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None) -> None:
        if self._end_time is None:
            limits = self._limits
            bounded = BoundedAttributes(
                limits.max_event_attributes, attributes, max_value_len=limits.max_attribute_length
            )
            most = limits.max_events
            if most is None or len(self._events) < most:
                self._events = [*self._events, Event(name, bounded, timestamp)]

    def record_exception(
        self,
        exception: BaseException,
        attributes: Mapping[str, Any] | None = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        shown = {
            "exception.type": f"{type(exception).__module__}.{type(exception).__qualname__}",
            "exception.message": message_of(exception),
            "exception.stacktrace": "".join(format_exception(exception)),
            "exception.escaped": str(escaped),
        }
        self.add_event("exception", {**shown, **(attributes or {})}, timestamp)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        if self._end_time is None:
            self._status = status if isinstance(status, Status) else Status(status, description)

    def update_name(self, name: str) -> None:
        if self._end_time is None:
            self._name = name

    def add_link(self, context: SpanContext, attributes: Mapping[str, Any] | None = None) -> None:
        if self._end_time is None:
            self._links = (*self._links, trace.Link(context, attributes))

    def end(self, end_time: int | None = None) -> None:
        """Nothing: the step's end is the span's, whoever thinks it is theirs to end."""


# Processors ask for it, and that is every span: this is the slot itself.
LiveSpan.context = vars(LiveSpan)["_context"]  # type: ignore[method-assign]


class StepSpan(LiveSpan):
    """That of an attempt of a step."""

    __slots__ = ()
    _name = "workflow.step"
    _kind = SpanKind.INTERNAL
    _said: StepInfo | tuple[RunInfo, str, str, str, int]
    """The step that executes; when it has ended its run, its status, name and kind, and which attempt it was: the step
    itself is not kept until it is exported."""

    def _told(self) -> dict[str, Any]:
        said = self._said
        if isinstance(said, StepInfo):
            return named(said.run) | {"step.name": said.name, "step.kind": said.kind, "step.attempt": said.attempt}
        run, status, name, kind, attempt = said
        return {
            "workflow.name": run.workflow,
            "workflow.version": run.version,
            "run_id": run.id,
            "status": status,
            "step.name": name,
            "step.kind": kind,
            "step.attempt": attempt,
        }


class RunSpan(LiveSpan):
    """That of a run, which has ended."""

    __slots__ = ()
    _name = "workflow.run"
    _said: tuple[RunInfo, str]
    """The run, and its status."""

    def _told(self) -> dict[str, Any]:
        run, status = self._said
        return {**named(run), "status": status}


def named(run: RunInfo | RunRecord) -> dict[str, Any]:
    """What all spans of a run say."""
    return {"workflow.name": run.workflow, "workflow.version": run.version, "run_id": run.id}
