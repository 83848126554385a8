"""Spans as OpenTelemetry's SDK exports them, made without its tracer.

The tracer makes a span's id itself, and takes as long for one span as a whole step of a run does. So spans are made
here: they have the ids we want, hold only what is needed until they end, and go to the same processors and exporters.

Loaded only when tracing is asked for: this module imports OpenTelemetry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from random import getrandbits
from struct import Struct
from traceback import format_exception
from typing import Any

from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context
from opentelemetry.sdk.trace import (
    Event,
    ReadableSpan,
    SpanLimits,
    SpanProcessor,
    SynchronousMultiSpanProcessor,
)
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from holdfast.codec import message_of
from holdfast.define import RunInfo, StepInfo
from holdfast.model import Instant, RunStatus

from .contexts import CURRENT, DROPPED, EMPTY, NO_STATE, SAMPLED, OwnContext, make_context, make_current, read, written
from .facts import RunEnded, StepEnded

_UNSET, _ERROR = Status(StatusCode.UNSET), Status(StatusCode.ERROR)
# By names of our own: to get a member of an enum from its class takes a call in Python.
_CONSUMER, _KEPT, _FAILED = SpanKind.CONSUMER, Decision.RECORD_AND_SAMPLE, RunStatus.FAILED
_SCOPE = InstrumentationScope("holdfast")


class RunTrace:
    """Where a run stands in its trace: worked out anew by every process that holds it, and always the same."""

    __slots__ = ("_base", "context", "is_sampled", "parent")

    def __init__(self, context: SpanContext, parent: SpanContext | None, is_sampled: bool) -> None:
        self.context = context
        self.parent = parent
        self.is_sampled = is_sampled
        self._base: Context | None = None

    @property
    def base(self) -> Context:
        """What its steps see if they have no span of their own: the run's, which is not to be written to."""
        if self._base is None:
            self._base = Context({CURRENT: NonRecordingSpan(self.context)})
        return self._base

    @property
    def text(self) -> str:
        return written(self.context)


class LiveSpan(trace.Span, ReadableSpan):
    """A span that is current while something executes, and exported when that has ended."""

    # The names are those that ReadableSpan reads.
    __slots__ = ("_attributes", "_context", "_end_time", "_extra", "_parent", "_start_time")
    # What most spans have in common is the class's.
    _name = "workflow.step"
    _kind = SpanKind.INTERNAL
    _events: Sequence[Event] = ()
    _links: Sequence[trace.Link] = ()
    _status = _UNSET
    _instrumentation_info = None
    # What all spans of one tracer have in common is that of a class of their own, which `Spans` derives.
    _instrumentation_scope = _SCOPE
    _resource: Any
    _spans: Spans

    _attributes: dict[str, Any]
    _context: SpanContext
    _end_time: int | None
    _extra: BoundedAttributes | None
    """What user code has said of it."""

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


_new: Callable[[type[LiveSpan]], LiveSpan] = object.__new__
_three = Struct(">QQQ").unpack
_SILENT = {kind.on_start for kind in (SpanProcessor, BatchSpanProcessor, SimpleSpanProcessor)}
"""What does nothing when a span begins."""


class Spans:
    """What spans are made with: that of a tracer of the SDK."""

    def __init__(self, tracer: Any) -> None:
        self._processor: SpanProcessor = tracer.span_processor
        self._processors: tuple[SpanProcessor, ...] | None = None
        self._on_ends: tuple[Callable[[ReadableSpan], None], ...] = (self._processor.on_end,)
        self._tells_starts = True
        self._new_id: Callable[[], int] = tracer.id_generator.generate_span_id
        if type(tracer.id_generator) is RandomIdGenerator:
            self._new_id = partial(getrandbits, 64)  # As it does.
        self._span: type[LiveSpan] = type("LiveSpan", (LiveSpan,), {"_resource": tracer.resource, "_spans": self})
        self.limits = SpanLimits()
        self._sampler: Sampler = tracer.sampler

    def _look(self) -> None:
        """Find out who hears of spans: a provider may be given further processors at any time."""
        found: tuple[SpanProcessor, ...] | None = getattr(self._processor, "_span_processors", None)
        if found is self._processors or found is None:
            return
        if type(self._processor) is SynchronousMultiSpanProcessor:
            self._processors = found
            self._on_ends = tuple(one.on_end for one in found)
            self._tells_starts = not all(type(one).on_start in _SILENT for one in found)

    def hold(self, run: RunInfo) -> None:
        """Find out where a run stands that this worker is to execute."""
        self._look()
        attributes = {"workflow.name": run.workflow, "workflow.version": run.version, "run_id": run.id}
        run.span = self.trace_of(seed_of(run.created_instant, run.id), run.caller_trace, attributes)

    def trace_of(self, seed: bytes, caller: str | None, attributes: dict[str, Any]) -> RunTrace:
        """Where a run stands: in its caller's trace, or at the head of one of its own. `seed` is the run's."""
        high, low, span_id = _three(blake2b(seed, person=b"holdfast span", digest_size=24).digest())
        parent = None if caller is None else read(caller)
        if parent is None:
            trace_id, above = high << 64 | low, EMPTY
        else:
            trace_id, above = parent.trace_id, trace.set_span_in_context(NonRecordingSpan(parent), EMPTY)
        asked = self._sampler.should_sample(above, trace_id, "workflow.run", _CONSUMER, attributes)
        is_sampled = asked.decision is _KEPT
        flags = SAMPLED if is_sampled else DROPPED
        if parent is not None and parent.trace_flags & ~TraceFlags.SAMPLED:
            # Whatever else the caller says about its trace holds for all of it.
            flags = TraceFlags(flags | parent.trace_flags & ~TraceFlags.SAMPLED)
        context = make_context(OwnContext, (trace_id, span_id, False, flags, asked.trace_state or NO_STATE, True))
        return RunTrace(context, parent, is_sampled)

    def enter(self, step: StepInfo) -> None:
        """Make the step's span, or the run's where it is not sampled, current for the code that is about to execute."""
        run: RunTrace | None = step.run.span
        if run is None:
            return
        if not run.is_sampled:
            make_current(run.base)
            return
        parent = run.context
        span = step.span = _new(self._span)
        span._context = make_context(OwnContext, (parent[0], self._new_id() or 1, False, parent[3], parent[4], True))
        span._parent = parent
        span._start_time = step.began_at * 1_000
        span._end_time = span._extra = None
        if self._tells_starts:
            self._processor.on_start(span, run.base)  # type: ignore[arg-type]  # as good as the SDK's
        make_current(Context({CURRENT: span}))

    def finish(self, steps: Sequence[StepEnded], runs: Sequence[RunEnded]) -> None:
        """End the spans of these steps and runs and hand them on; a step that failed says why."""
        self._look()
        broken: Exception | None = None
        for fact in steps:
            step = fact.step
            span: LiveSpan | None = step.span
            if span is None:
                continue
            step.span = None
            run = step.run
            attributes = {
                "workflow.name": run.workflow,
                "workflow.version": run.version,
                "run_id": run.id,
                "status": fact.status,
                "step.name": step.name,
                "step.kind": step.kind,
                "step.attempt": step.attempt,
            }
            try:
                if fact.error is not None:
                    _explain(span, fact.error, fact.at * 1_000)
                if span._extra is not None:
                    attributes |= span._extra
                span._attributes = attributes
                span._end_time = fact.at * 1_000
                for on_end in self._on_ends:
                    on_end(span)
            except Exception as error:
                # A processor's own; the other spans have theirs coming.
                broken = error
        for ended in runs:
            try:
                self._finish_run(ended)
            except Exception as error:
                broken = error
        if broken is not None:
            raise broken

    def _finish_run(self, fact: RunEnded) -> None:
        run = fact.run
        traced: RunTrace | None = run.span
        if traced is None or not traced.is_sampled:
            return
        span = self._begun("workflow.run", traced.context, traced.parent, run.started_instant * 1_000, EMPTY)
        if fact.status is _FAILED and span._status is _UNSET:
            span._status = _ERROR
        attributes = {
            "workflow.name": run.workflow,
            "workflow.version": run.version,
            "run_id": run.id,
            "status": fact.status._value_,
        }
        self._end(span, fact.at * 1_000, attributes)

    def message(self, run: RunTrace, kind: str, at: int, attributes: dict[str, Any], sender: str | None) -> None:
        """A message that a run has taken in: a moment in its trace, linked with where its sender stood in its own."""
        parent = run.context
        context = make_context(OwnContext, (parent[0], self._new_id() or 1, False, parent[3], parent[4], True))
        span = self._begun(f"workflow.{kind}", context, parent, at, run.base)
        origin = read(sender)
        if origin is not None:
            span._links = (*span._links, trace.Link(origin))
        self._end(span, at, attributes)

    def _begun(
        self, name: str, context: SpanContext, parent: SpanContext | None, began_at: int, above: Context
    ) -> LiveSpan:
        span = _new(self._span)
        span._name = name
        span._kind = _CONSUMER
        span._context = context
        span._parent = parent
        span._start_time = began_at
        span._end_time = span._extra = None
        if self._tells_starts:
            self._processor.on_start(span, above)  # type: ignore[arg-type]  # as good as the SDK's
        return span

    def _end(self, span: LiveSpan, at: int, attributes: dict[str, Any]) -> None:
        if span._extra is not None:
            attributes |= span._extra
        span._attributes = attributes
        span._end_time = at
        for on_end in self._on_ends:
            on_end(span)


def seed_of(created: Instant, run_id: str) -> bytes:
    """What a run's ids are drawn from. The time is there because an id that a user has chosen may be somebody else's,
    too."""
    return f"{created} {run_id}".encode()


def _explain(span: LiveSpan, error: BaseException, at: int) -> None:
    span.record_exception(error, timestamp=at)
    if span._status is _UNSET:
        span._status = Status(StatusCode.ERROR, f"{type(error).__name__}: {message_of(error)}")


def sent(tracer: Any, kind: str, took: int, attributes: dict[str, Any]) -> None:
    """A message that a client has sent, in the trace of whoever sent it."""
    now = time.time_ns()
    span = tracer.start_span(f"workflow.{kind}", kind=SpanKind.PRODUCER, attributes=attributes, start_time=now - took)
    span.end(now)
