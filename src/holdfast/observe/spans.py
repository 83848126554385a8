"""Spans as OpenTelemetry's SDK exports them, made without its tracer.

The tracer makes a span's id itself, and takes as long for one span as a whole step of a run does. So spans are made
here: they have the ids we want, hold only what is needed until they end, and go to the same processors and exporters.

Loaded only when tracing is asked for: this module imports OpenTelemetry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import blake2b
from random import getrandbits
from struct import Struct
from typing import Any, TypeVar

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from holdfast.codec import message_of
from holdfast.define import RunInfo, StepInfo
from holdfast.model import Instant, RunStatus

from .contexts import CURRENT, DROPPED, EMPTY, NO_STATE, SAMPLED, OwnContext, make_context, make_current, read, written
from .facts import RunEnded, StepEnded
from .live import UNSET, LiveSpan, RunSpan, StepSpan, named
from .processors import Processors

_ERROR = Status(StatusCode.ERROR)
# By names of our own: to get a member of an enum from its class takes a call in Python.
_CONSUMER, _KEPT, _FAILED = SpanKind.CONSUMER, Decision.RECORD_AND_SAMPLE, RunStatus.FAILED


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


T = TypeVar("T", bound=LiveSpan)
_new = object.__new__
_ids = blake2b(person=b"holdfast span", digest_size=24)
_three = Struct(">QQQ").unpack


class Spans:
    """What spans are made with: that of a tracer of the SDK."""

    def __init__(self, tracer: Any) -> None:
        self._processors = Processors(tracer.span_processor)
        self._new_id: Callable[[], int] = tracer.id_generator.generate_span_id
        if type(tracer.id_generator) is RandomIdGenerator:
            self._new_id = partial(getrandbits, 64)  # As it does.
        common = {"_resource": tracer.resource, "_limits": SpanLimits()}
        self._message_span = _derived(LiveSpan, common)
        self._step_span, self._run_span = _derived(StepSpan, common), _derived(RunSpan, common)
        self._sampler: Sampler = tracer.sampler

    def hold(self, run: RunInfo) -> None:
        """Find out where a run stands that this worker is to execute."""
        self._processors.look()
        run.span = self.trace_of(seed_of(run.created_instant, run.id), run.caller_trace, named(run))

    def trace_of(self, seed: bytes, caller: str | None, attributes: dict[str, Any]) -> RunTrace:
        """Where a run stands: in its caller's trace, or at the head of one of its own. `seed` is the run's."""
        ids = _ids.copy()
        ids.update(seed)
        high, low, span_id = _three(ids.digest())
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
        span = step.span = _new(self._step_span)
        span._context = make_context(OwnContext, (parent[0], self._new_id() or 1, False, parent[3], parent[4], True))
        span._parent = parent
        span._start_time = step.began_at * 1_000
        span._said = step
        span._end_time = span._extra = None
        if self._processors.tells_starts:
            self._processors.begun(span, run.base)
        make_current(Context({CURRENT: span}))

    def finish(self, steps: Sequence[StepEnded], runs: Sequence[RunEnded]) -> None:
        """End the spans of these steps and runs and hand them on; a step that failed says why."""
        ended: list[LiveSpan] = []
        for fact in steps:
            step = fact.step
            span: StepSpan | None = step.span
            if span is not None:
                step.span = None
                at = fact.at * 1_000
                if fact.error is not None:
                    _explain(span, fact.error, at)
                span._said = (step.run, fact.status, step.name, step.kind, step.attempt)
                span._end_time = at
                ended.append(span)
        broken: Exception | None = None
        for of_run in runs:
            traced: RunTrace | None = of_run.run.span
            if traced is not None and traced.is_sampled:
                try:
                    ended.append(self._of_run(of_run, traced))
                except Exception as error:
                    # A processor's own; the others have theirs coming.
                    broken = error
        if ended:
            self._processors.look()
            self._processors.ended(ended)
        if broken is not None:
            raise broken

    def _of_run(self, fact: RunEnded, traced: RunTrace) -> RunSpan:
        run = fact.run
        span = _new(self._run_span)
        span._said = (run, fact.status._value_)
        self._begin(span, traced.context, traced.parent, run.started_instant * 1_000, EMPTY)
        if fact.status is _FAILED and span._status is UNSET:
            span._status = _ERROR
        span._end_time = fact.at * 1_000
        return span

    def message(self, run: RunTrace, kind: str, at: int, attributes: dict[str, Any], sender: str | None) -> None:
        """A message that a run has taken in: a moment in its trace, linked with where its sender stood in its own."""
        parent = run.context
        context = make_context(OwnContext, (parent[0], self._new_id() or 1, False, parent[3], parent[4], True))
        span = _new(self._message_span)
        span._name = f"workflow.{kind}"
        span._said = attributes
        self._begin(span, context, parent, at, run.base)
        origin = read(sender)
        if origin is not None:
            span._links = (*span._links, trace.Link(origin))
        span._end_time = at
        self._processors.ended((span,))

    def _begin(
        self, span: LiveSpan, context: SpanContext, parent: SpanContext | None, began_at: int, above: Context
    ) -> None:
        span._context = context
        span._parent = parent
        span._start_time = began_at
        span._end_time = span._extra = None
        if self._processors.tells_starts:
            self._processors.begun(span, above)


def _derived(kind: type[T], common: dict[str, Any]) -> type[T]:
    """A class of its own for the spans of one tracer."""
    return type(kind.__name__, (kind,), common)


def seed_of(created: Instant, run_id: str) -> bytes:
    """What a run's ids are drawn from. The time is there because an id that a user has chosen may be somebody else's,
    too."""
    return f"{created} {run_id}".encode()


def _explain(span: LiveSpan, error: BaseException, at: int) -> None:
    span.record_exception(error, timestamp=at)
    if span._status is UNSET:
        span._status = Status(StatusCode.ERROR, f"{type(error).__name__}: {message_of(error)}")


def sent(tracer: Any, kind: str, took: int, attributes: dict[str, Any]) -> None:
    """A message that a client has sent, in the trace of whoever sent it."""
    now = time.time_ns()
    span = tracer.start_span(f"workflow.{kind}", kind=SpanKind.PRODUCER, attributes=attributes, start_time=now - took)
    span.end(now)
