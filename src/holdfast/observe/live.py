"""The spans of runs, steps and messages.

Loaded only when tracing is asked for: this module imports OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from traceback import format_exception
from typing import Any, Protocol

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from holdfast.codec import message_of
from holdfast.define import RunInfo, StepInfo
from holdfast.model import Instant, RunRecord

from .contexts import OwnContext, make_context

UNSET = Status(StatusCode.UNSET)
_SCOPE = InstrumentationScope("holdfast")


class LiveSpan(trace.Span, ReadableSpan):
    """A span that user code may write to until it ends, and that is then exported."""

    __slots__ = ("_began_at", "_ended_at")
    # Values that most spans share are the class's. Those that ReadableSpan reads are named as it reads them.
    _name: str
    _kind = SpanKind.CONSUMER
    _events: Sequence[Event] = ()
    _links: Sequence[trace.Link] = ()
    _status = UNSET
    _instrumentation_info = None
    # `Spans` derives classes for each tracer, with the values that all its spans share.
    _instrumentation_scope = _SCOPE
    _resource: Any
    _limits: SpanLimits

    _user_attributes: BoundedAttributes | None = None

    _context: SpanContext
    _began_at: Instant
    _ended_at: Instant | None

    @property
    def start_time(self) -> int | None:
        return self._began_at * 1_000

    @property
    def end_time(self) -> int | None:
        ended_at = self._ended_at
        return None if ended_at is None else ended_at * 1_000

    _start_time, _end_time = start_time, end_time

    @property
    def attributes(self) -> dict[str, Any]:
        # Made when they are read, which an exporter does in its own thread, and for some spans nobody does.
        found = self._own_attributes()
        return found if self._user_attributes is None else {**found, **self._user_attributes}

    _attributes = attributes

    def _own_attributes(self) -> dict[str, Any]:
        """The attributes that Holdfast sets."""
        raise NotImplementedError

    def get_span_context(self) -> SpanContext:
        return self._context

    def is_recording(self) -> bool:
        return self._ended_at is None

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        for key, value in attributes.items():
            self.set_attribute(key, value)

    def set_attribute(self, key: str, value: Any) -> None:
        if self._ended_at is None:
            if self._user_attributes is None:
                limits = self._limits
                self._user_attributes = BoundedAttributes(
                    limits.max_span_attributes, {}, immutable=False, max_value_len=limits.max_span_attribute_length
                )
            self._user_attributes[key] = value

    def add_event(self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None) -> None:
        if self._ended_at is None:
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
        if self._ended_at is None:
            self._status = status if isinstance(status, Status) else Status(status, description)

    def update_name(self, name: str) -> None:
        if self._ended_at is None:
            self._name = name

    def add_link(self, context: SpanContext, attributes: Mapping[str, Any] | None = None) -> None:
        if self._ended_at is None:
            self._links = (*self._links, trace.Link(context, attributes))

    def end(self, end_time: int | None = None) -> None:
        """Do nothing: user code may call this, but the span ends with its step."""


class MessageSpan(LiveSpan):
    """The span of a message that a run has taken in."""

    __slots__ = ("_context", "_fixed_attributes", "_parent")
    _fixed_attributes: dict[str, Any]

    def _own_attributes(self) -> dict[str, Any]:
        return dict(self._fixed_attributes)


class Place(Protocol):
    """The place of a run in a trace."""

    @property
    def context(self) -> SpanContext: ...

    @property
    def parent(self) -> SpanContext | None: ...


class RunSpan(LiveSpan):
    """The span of a run that has ended."""

    __slots__ = ("_place", "_run", "_state")
    _name = "workflow.run"
    _place: Place
    _run: RunInfo
    _state: str
    """How the run ended."""

    @property
    def _context(self) -> SpanContext:  # type: ignore[override]  # it is never assigned
        return self._place.context

    context = _context

    @property
    def _parent(self) -> SpanContext | None:  # type: ignore[override]  # it is never assigned
        return self._place.parent

    def _own_attributes(self) -> dict[str, Any]:
        return {**named(self._run), "status": self._state}


class StepSpan(LiveSpan):
    """The span of one attempt of a step.

    Each attempt has one, and it is kept until it is exported, so it is a single object: its context and attributes are
    made when they are read. The step's data is copied after the step has ended, for many steps in a row, which takes
    half as long as between other work.
    """

    __slots__ = ("_attempt", "_id", "_live_step", "_run", "_state", "_step", "_step_kind")
    _name = "workflow.step"
    _kind = SpanKind.INTERNAL
    _live_step: StepInfo | None
    """The step while it executes; None once its data is copied."""
    _id: int
    _run: RunInfo
    _step: str
    _step_kind: str
    _attempt: int
    _state: str
    """How the attempt ended."""

    def copy(self, step: StepInfo) -> None:
        """Copy the step's data. Safe to repeat, in any thread: the data does not change."""
        self._run = step.run
        self._step = step.name
        self._step_kind = step.kind
        self._attempt = step.attempt
        self._began_at = step.began_at

    @property
    def _context(self) -> SpanContext:  # type: ignore[override]  # it is never assigned
        above = self._parent
        return make_context(OwnContext, (above[0], self._id, False, above[3], above[4], True))

    context = _context

    @property
    def _parent(self) -> SpanContext:  # type: ignore[override]  # it is never assigned
        step = self._live_step
        above: SpanContext = (self._run if step is None else step.run).span.context
        return above

    @property
    def start_time(self) -> int | None:
        step = self._live_step
        return (self._began_at if step is None else step.began_at) * 1_000

    _start_time = start_time

    def _own_attributes(self) -> dict[str, Any]:
        step = self._live_step
        if step is not None:
            self.copy(step)
        run = self._run
        found = {
            "workflow.name": run.workflow,
            "workflow.version": run.version,
            # Not `run.id`: while the body replays the history of a run that this one retries, that is the other's.
            "run_id": run.own_id,
            "step.name": self._step,
            "step.kind": self._step_kind,
            "step.attempt": self._attempt,
        }
        if self._ended_at is not None:
            found["status"] = self._state
        return found


def named(run: RunInfo | RunRecord) -> dict[str, Any]:
    """The attributes that all spans of a run have."""
    return {"workflow.name": run.workflow, "workflow.version": run.version, "run_id": run.id}
