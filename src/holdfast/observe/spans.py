"""Spans as OpenTelemetry's SDK exports them, made without its tracer.

The tracer draws span ids itself, and needs as long for one span as a whole step of a run takes. Spans made here have
the ids we choose, hold only what is needed until they end, and go to the same processors and exporters.

Loaded only when tracing is asked for: this module imports OpenTelemetry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from random import getrandbits
from typing import Any, TypeVar

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import SpanKind, Status, StatusCode

from holdfast.codec import message_of
from holdfast.define import RunInfo, StepInfo
from holdfast.model import Instant, RunStatus

from .contexts import CURRENT, EMPTY, OwnContext, make_context, make_current, read
from .facts import RunEnded, StepEnd
from .live import UNSET, LiveSpan, MessageSpan, RunSpan, StepSpan, named
from .places import Places, RunTrace
from .processors import Processors

_ERROR = Status(StatusCode.ERROR)
_FAILED = RunStatus.FAILED
"""Looked up once: getting a member from its enum class takes a call in Python."""

T = TypeVar("T", bound=LiveSpan)
_new = object.__new__


class Spans:
    """Makes spans with the processors, ids, sampler and resource of one tracer of the SDK."""

    def __init__(self, tracer: Any) -> None:
        self._processors = Processors(tracer.span_processor)
        self._new_id: Callable[[], int] = tracer.id_generator.generate_span_id
        if type(tracer.id_generator) is RandomIdGenerator:
            self._new_id = partial(getrandbits, 64)  # What the generator calls.
        common = {"_resource": tracer.resource, "_limits": SpanLimits()}
        self._message_span = _derived(MessageSpan, common)
        self._step_span, self._run_span = _derived(StepSpan, common), _derived(RunSpan, common)
        self.place = Places(tracer.sampler).place

    def hold(self, run: RunInfo) -> None:
        """Find the place in a trace of a run that this worker is to execute."""
        self._processors.look()
        run.span = self.place(run, run.created_instant, run.caller_trace)

    def enter(self, step: StepInfo) -> None:
        """Make the step's span current for the code about to execute; the run's place if the run is not sampled."""
        traced: RunTrace | None = step.run.span
        if traced is None:
            return
        if not traced.is_sampled:
            make_current(Context({CURRENT: traced}))
            return
        span = step.span = _new(self._step_span)
        span._live_step = step
        span._id = self._new_id() or 1
        span._ended_at = None
        if self._processors.tells_starts:
            span.copy(step)
            self._processors.begun(span, Context({CURRENT: traced}))
        make_current(Context({CURRENT: span}))

    def finish(self, steps: Sequence[StepEnd], runs: Sequence[RunEnded]) -> None:
        """End the spans of these steps and runs and hand them to the processors; a failed step's has its error."""
        ended: list[LiveSpan] = []
        for step, status, at in steps:
            span: StepSpan | None = step.span
            if span is not None:
                step.span = None
                # What `copy` does, inlined since this is done for every step.
                span._run, span._step, span._step_kind = step.run, step.name, step.kind
                span._attempt, span._began_at = step.attempt, step.began_at
                if status != "completed" and (error := getattr(step, "error", None)) is not None:
                    _explain(span, error, at * 1_000)
                span._state = status
                span._ended_at = at
                span._live_step = None
                ended.append(span)
        broken: Exception | None = None
        for fact in runs:
            traced: RunTrace | None = fact.run.span
            if traced is not None and traced.is_sampled:
                try:
                    ended.append(self._run_ended(fact, traced))
                except Exception as error:
                    # A processor's `on_start` has raised: the other spans are still handed on.
                    broken = error
        if ended:
            self._processors.look()
            self._processors.ended(ended)
        if broken is not None:
            raise broken

    def _run_ended(self, fact: RunEnded, traced: RunTrace) -> RunSpan:
        run = fact.run
        span = _new(self._run_span)
        span._place, span._run, span._state = traced, run, fact.status._value_
        span._began_at, span._ended_at = run.started_instant, None
        if self._processors.tells_starts:
            self._processors.begun(span, EMPTY)
        if fact.status is _FAILED and span._status is UNSET:
            span._status = _ERROR
        span._ended_at = fact.at
        return span

    def message(self, run: RunInfo, kind: str, name: str, at: Instant, sender: str | None) -> None:
        """Export a span without duration for a message that a run has taken in, linked with its sender's span."""
        traced: RunTrace | None = run.span
        if traced is None or not traced.is_sampled:
            return
        parent = traced.context
        context = make_context(OwnContext, (parent[0], self._new_id() or 1, False, parent[3], parent[4], True))
        span = _new(self._message_span)
        span._name = f"workflow.{kind}"
        span._fixed_attributes = {**named(run), f"{kind}.name": name}
        span._context, span._parent = context, parent
        span._began_at, span._ended_at = at, None
        if self._processors.tells_starts:
            self._processors.begun(span, Context({CURRENT: traced}))
        origin = read(sender)
        if origin is not None:
            span._links = (*span._links, trace.Link(origin))
        span._ended_at = at
        self._processors.ended((span,))


def _derived(kind: type[T], common: dict[str, Any]) -> type[T]:
    """A class for the spans of one tracer, with what they have in common."""
    return type(kind.__name__, (kind,), common)


def _explain(span: LiveSpan, error: BaseException, at: int) -> None:
    span.record_exception(error, timestamp=at)
    if span._status is UNSET:
        span._status = Status(StatusCode.ERROR, f"{type(error).__name__}: {message_of(error)}")


def message_sent(tracer: Any, kind: str, took: int, attributes: dict[str, Any]) -> None:
    """Export the span of a message that a client has sent, in the trace of the code that sent it."""
    now = time.time_ns()
    span = tracer.start_span(f"workflow.{kind}", kind=SpanKind.PRODUCER, attributes=attributes, start_time=now - took)
    span.end(now)
