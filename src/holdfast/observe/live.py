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

from .contexts import OwnContext, make_context

UNSET = Status(StatusCode.UNSET)
_SCOPE = InstrumentationScope("holdfast")


class LiveSpan(trace.Span, ReadableSpan):
    """A span that is current while something executes, and exported when that has ended."""

    # The names are those that ReadableSpan reads.
    __slots__ = ("_end_time", "_extra", "_start_time")
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

    @property
    def attributes(self) -> dict[str, Any]:
        """What is said of it."""
        # Put together for those who read it, on whose thread that is: most spans go to an exporter, and some nowhere.
        found = self._told()
        return found if self._extra is None else {**found, **self._extra}

    _attributes = attributes

    def _told(self) -> dict[str, Any]:
        """What we say of it."""
        raise NotImplementedError

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


class MessageSpan(LiveSpan):
    """That of a message which a run has taken in."""

    __slots__ = ("_context", "_parent", "_said")
    _said: dict[str, Any]

    def _told(self) -> dict[str, Any]:
        return dict(self._said)


class RunSpan(LiveSpan):
    """That of a run, which has ended."""

    __slots__ = ("_context", "_parent", "_run", "_state")
    _name = "workflow.run"
    _run: RunInfo
    _state: str
    """How it ended."""

    def _told(self) -> dict[str, Any]:
        return {**named(self._run), "status": self._state}


class StepSpan(LiveSpan):
    """That of an attempt of a step.

    There is one for every step, and it is kept until it is exported, so it is one object and no more: what else there
    is to it follows from what it holds, and is made for whoever asks. What it says of its step is copied when that has
    ended, for many one after the other, which takes half as long as in the midst of something else.
    """

    __slots__ = ("_attempt", "_id", "_mode", "_of", "_run", "_state", "_step")
    _name = "workflow.step"
    _kind = SpanKind.INTERNAL
    _of: StepInfo | None
    """The step while it executes; None when all was copied."""
    _id: int
    _run: RunInfo
    _step: str
    _mode: str
    _attempt: int
    _state: str
    """How it ended."""

    def copy(self, step: StepInfo) -> None:
        """Take from the step what is said of it. Whoever does it again, in whichever thread, takes the same."""
        self._run = step.run
        self._step = step.name
        self._mode = step.kind
        self._attempt = step.attempt
        self._start_time = step.began_at * 1_000

    @property
    def _context(self) -> SpanContext:  # type: ignore[override]  # nobody writes it
        above = self._parent
        return make_context(OwnContext, (above[0], self._id, False, above[3], above[4], True))

    context = _context

    @property
    def _parent(self) -> SpanContext:  # type: ignore[override]  # nobody writes it
        step = self._of
        above: SpanContext = (self._run if step is None else step.run).span.context
        return above

    @property
    def start_time(self) -> int | None:
        """When the attempt began."""
        step = self._of
        return self._start_time if step is None else step.began_at * 1_000

    def _told(self) -> dict[str, Any]:
        step = self._of
        if step is not None:
            self.copy(step)
        run = self._run
        found = {
            "workflow.name": run.workflow,
            "workflow.version": run.version,
            # Not what its body is told, which may be living through another run's past just when this is read.
            "run_id": run.own_id,
            "step.name": self._step,
            "step.kind": self._mode,
            "step.attempt": self._attempt,
        }
        if self._end_time is not None:
            found["status"] = self._state
        return found


def named(run: RunInfo | RunRecord) -> dict[str, Any]:
    """What all spans of a run say."""
    return {"workflow.name": run.workflow, "workflow.version": run.version, "run_id": run.id}
