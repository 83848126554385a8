"""Spans as OpenTelemetry's SDK exports them, made without its tracer.

The tracer makes a span's id itself, and takes as long for one span as a whole step of a run does. So spans are made
here: they have the ids we want, hold only what is needed until they end, and go to the same processors and exporters.

Loaded only when tracing is asked for: this module imports OpenTelemetry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from traceback import format_exception
from typing import Any

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

_EMPTY = Context()
_SAMPLED, _DROPPED = TraceFlags(TraceFlags.SAMPLED), TraceFlags(TraceFlags.DEFAULT)
_UNSET, _ERROR = Status(StatusCode.UNSET), Status(StatusCode.ERROR)
_NO_STATE = TraceState()
_SCOPE = InstrumentationScope("holdfast")
[_CURRENT] = trace.set_span_in_context(trace.INVALID_SPAN, _EMPTY)
"""The name under which a context holds the current span."""


def written(context: SpanContext) -> str:
    """A span's context as W3C writes it: a traceparent, and after a space its tracestate, if there is one."""
    text = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    return f"{text} {context.trace_state.to_header()}" if context.trace_state else text


def read(text: str | None) -> SpanContext | None:
    """What `written` wrote. Anything else is no trace at all."""
    if text is None:
        return None
    parent, _, state = text.partition(" ")
    parts = parent.split("-")
    try:
        trace_id, span_id, flags = (int(part, 16) for part in parts[1:4])
    except ValueError:
        return None
    found = SpanContext(
        trace_id, span_id, True, TraceFlags(flags), TraceState.from_header([state]) if state else _NO_STATE
    )
    return found if found.is_valid else None


def current_trace() -> str | None:
    """The trace that the running code is in."""
    context = trace.get_current_span().get_span_context()
    return written(context) if context.is_valid else None


@contextmanager
def within(text: str) -> Iterator[None]:
    """Be in a trace that came from outside; a server that is traced by something else is in it already."""
    found = None if trace.get_current_span().get_span_context().is_valid else read(text)
    if found is None:
        yield
        return
    token = attach(trace.set_span_in_context(NonRecordingSpan(found)))
    try:
        yield
    finally:
        detach(token)


def _context(trace_id: int, span_id: int, flags: TraceFlags, state: TraceState | None) -> SpanContext:
    # A tuple whose parts need no looking at: we have drawn them ourselves.
    return tuple.__new__(SpanContext, (trace_id, span_id, False, flags, state or _NO_STATE, True))


if _context(1, 2, _SAMPLED, None) != SpanContext(1, 2, False, _SAMPLED):
    # Another release of OpenTelemetry, in which it is made of something else.
    def _context(trace_id: int, span_id: int, flags: TraceFlags, state: TraceState | None) -> SpanContext:
        return SpanContext(trace_id, span_id, False, flags, state)


class RunTrace:
    """Where a run stands in its trace: worked out anew by every process that holds it, and always the same."""

    __slots__ = ("base", "context", "is_sampled", "parent")

    def __init__(self, context: SpanContext, parent: SpanContext | None, is_sampled: bool) -> None:
        self.context = context
        self.parent = parent
        self.is_sampled = is_sampled
        self.base = Context({_CURRENT: NonRecordingSpan(context)})
        """What its steps see if they have no span of their own: the run's, which is not to be written to."""

    @property
    def text(self) -> str:
        return written(self.context)


class LiveSpan(trace.Span, ReadableSpan):
    """A span that is current while something executes, and exported when that has ended."""

    # What most spans have in common is the class's. The names are those that ReadableSpan reads.
    _kind = SpanKind.INTERNAL
    _events: Sequence[Event] = ()
    _links: Sequence[trace.Link] = ()
    _status = _UNSET
    _instrumentation_info = None
    _end_time = None
    _extra: BoundedAttributes | None = None

    _context: SpanContext
    # What all spans of one tracer have in common is that of a class of their own, which `Spans` derives.
    _instrumentation_scope = _SCOPE
    _resource: Any
    _spans: Spans

    def __init__(self, name: str, context: SpanContext, parent: SpanContext | None, start_time: int) -> None:
        self._name = name
        self._context = context
        self._parent = parent
        self._start_time = start_time

    def finish(self, end_time: int, attributes: dict[str, Any], status: Status) -> None:
        """End it and hand it on."""
        if self._extra is not None:
            attributes |= self._extra
        self._attributes = attributes
        if self._status is _UNSET:
            self._status = status
        self._end_time = end_time
        self._spans.processor.on_end(self)

    # -- what user code may do with the current span -----------------------------------------------------------------

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
                limits = self._spans.limits
                self._extra = BoundedAttributes(
                    limits.max_span_attributes, {}, immutable=False, max_value_len=limits.max_span_attribute_length
                )
            self._extra[key] = value

    def add_event(self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None) -> None:
        if self._end_time is None:
            limits = self._spans.limits
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
            "exception.message": str(exception),
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


class Spans:
    """What spans are made with: that of a tracer of the SDK."""

    def __init__(self, tracer: Any) -> None:
        self.processor = tracer.span_processor
        self.new_id: Callable[[], int] = tracer.id_generator.generate_span_id
        self._span: type[LiveSpan] = type("LiveSpan", (LiveSpan,), {"_resource": tracer.resource, "_spans": self})
        self.limits = SpanLimits()
        self._sampler: Sampler = tracer.sampler

    def trace_of(self, seed: bytes, caller: str | None, attributes: dict[str, Any]) -> RunTrace:
        """Where a run stands: in its caller's trace, or at the head of one of its own. `seed` is the run's."""
        drawn = blake2b(seed, person=b"holdfast span", digest_size=24).digest()
        parent = read(caller)
        if parent is None:
            trace_id, above = int.from_bytes(drawn[:16], "big"), _EMPTY
        else:
            trace_id, above = parent.trace_id, trace.set_span_in_context(NonRecordingSpan(parent), _EMPTY)
        asked = self._sampler.should_sample(above, trace_id, "workflow.run", SpanKind.CONSUMER, attributes)
        is_sampled = asked.decision is Decision.RECORD_AND_SAMPLE
        span_id = int.from_bytes(drawn[16:], "big")
        flags = _SAMPLED if is_sampled else _DROPPED
        if parent is not None and parent.trace_flags & ~TraceFlags.SAMPLED:
            # Whatever else the caller says about its trace holds for all of it.
            flags = TraceFlags(flags | parent.trace_flags & ~TraceFlags.SAMPLED)
        context = _context(trace_id, span_id, flags, asked.trace_state)
        return RunTrace(context, parent, is_sampled)

    def step(self, run: RunTrace, began_at: int) -> LiveSpan | None:
        """Make the step's span, or the run's where it is not sampled, current for the code that is about to execute."""
        if not run.is_sampled:
            attach(run.base)
            return None
        parent = run.context
        span = self._span("workflow.step", _context(parent[0], self.new_id(), parent[3], parent[4]), parent, began_at)
        self.processor.on_start(span, run.base)
        attach(Context({_CURRENT: span}))
        return span

    def run(self, run: RunTrace, began_at: int, at: int, attributes: dict[str, Any], is_failed: bool) -> None:
        """The span of a run that has ended."""
        span = self._span("workflow.run", run.context, run.parent, began_at)
        span._kind = SpanKind.CONSUMER
        self.processor.on_start(span, _EMPTY)
        span.finish(at, attributes, _ERROR if is_failed else _UNSET)

    def message(self, run: RunTrace, kind: str, at: int, attributes: dict[str, Any], sender: str | None) -> None:
        """A message that a run has taken in: a moment in its trace, linked with where its sender stood in its own."""
        parent = run.context
        span = self._span(f"workflow.{kind}", _context(parent[0], self.new_id(), parent[3], parent[4]), parent, at)
        span._kind = SpanKind.CONSUMER
        origin = read(sender)
        if origin is not None:
            span._links = (trace.Link(origin),)
        self.processor.on_start(span, run.base)
        span.finish(at, attributes, _UNSET)


def finish_step(span: LiveSpan, at: int, attributes: dict[str, Any], error: BaseException | None) -> None:
    """End a step's span; one that failed says why."""
    if error is None:
        span.finish(at, attributes, _UNSET)
        return
    span.record_exception(error, timestamp=at)
    span.finish(at, attributes, Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))


def sent(tracer: Any, kind: str, took: int, attributes: dict[str, Any]) -> None:
    """A message that a client has sent, in the trace of whoever sent it."""
    now = time.time_ns()
    span = tracer.start_span(f"workflow.{kind}", kind=SpanKind.PRODUCER, attributes=attributes, start_time=now - took)
    span.end(now)
