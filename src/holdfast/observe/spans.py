"""Spans as OpenTelemetry's SDK exports them, made without its tracer.

The tracer makes a span's id itself, and takes as long for one span as a whole step of a run does. So spans are made
here: they have the ids we want, hold only what is needed until they end, and go to the same processors and exporters.

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
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from holdfast.codec import message_of
from holdfast.define import RunInfo, StepInfo
from holdfast.model import RunStatus

from .contexts import CURRENT, EMPTY, OwnContext, make_context, make_current, read
from .facts import RunEnded, StepEnd
from .live import UNSET, LiveSpan, MessageSpan, RunSpan, StepSpan, named
from .places import Places, RunTrace
from .processors import Processors

_ERROR = Status(StatusCode.ERROR)
_FAILED = RunStatus.FAILED
"""By a name of our own: to get a member of an enum from its class takes a call in Python."""

T = TypeVar("T", bound=LiveSpan)
_new = object.__new__


class Spans:
    """What spans are made with: that of a tracer of the SDK."""

    def __init__(self, tracer: Any) -> None:
        self._processors = Processors(tracer.span_processor)
        self._new_id: Callable[[], int] = tracer.id_generator.generate_span_id
        if type(tracer.id_generator) is RandomIdGenerator:
            self._new_id = partial(getrandbits, 64)  # As it does.
        common = {"_resource": tracer.resource, "_limits": SpanLimits()}
        self._message_span = _derived(MessageSpan, common)
        self._step_span, self._run_span = _derived(StepSpan, common), _derived(RunSpan, common)
        self.place = Places(tracer.sampler).place

    def hold(self, run: RunInfo) -> None:
        """Find out where a run stands that this worker is to execute."""
        self._processors.look()
        run.span = self.place(run, run.created_instant, run.caller_trace)

    def enter(self, step: StepInfo) -> None:
        """Make the step's span, or the run's where it is not sampled, current for the code that is about to execute."""
        traced: RunTrace | None = step.run.span
        if traced is None:
            return
        if not traced.is_sampled:
            make_current(Context({CURRENT: traced}))
            return
        span = step.span = _new(self._step_span)
        span._of = step
        span._id = self._new_id() or 1
        span._end_time = span._extra = None
        if self._processors.tells_starts:
            span.copy(step)
            self._processors.begun(span, Context({CURRENT: traced}))
        make_current(Context({CURRENT: span}))

    def finish(self, steps: Sequence[StepEnd], runs: Sequence[RunEnded]) -> None:
        """End the spans of these steps and runs and hand them on; a step that failed says why."""
        ended: list[LiveSpan] = []
        for step, status, at in steps:
            span: StepSpan | None = step.span
            if span is not None:
                step.span = None
                span.copy(step)
                at *= 1_000
                if status != "completed" and (error := getattr(step, "error", None)) is not None:
                    _explain(span, error, at)
                span._state = status
                span._end_time = at
                span._of = None
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
        span._run, span._state = run, fact.status._value_
        self._begin(span, traced.context, traced.parent, run.started_instant * 1_000, EMPTY)
        if fact.status is _FAILED and span._status is UNSET:
            span._status = _ERROR
        span._end_time = fact.at * 1_000
        return span

    def message(self, run: RunInfo, kind: str, name: str, at: int, sender: str | None) -> None:
        """A message that a run has taken in: a moment in its trace, linked with where its sender stood in its own."""
        traced: RunTrace | None = run.span
        if traced is None or not traced.is_sampled:
            return
        parent = traced.context
        context = make_context(OwnContext, (parent[0], self._new_id() or 1, False, parent[3], parent[4], True))
        span = _new(self._message_span)
        span._name = f"workflow.{kind}"
        span._said = {**named(run), f"{kind}.name": name}
        self._begin(span, context, parent, at, Context({CURRENT: traced}))
        origin = read(sender)
        if origin is not None:
            span._links = (*span._links, trace.Link(origin))
        span._end_time = at
        self._processors.ended((span,))

    def _begin(
        self,
        span: MessageSpan | RunSpan,
        context: SpanContext,
        parent: SpanContext | None,
        began_at: int,
        above: Context,
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


def _explain(span: LiveSpan, error: BaseException, at: int) -> None:
    span.record_exception(error, timestamp=at)
    if span._status is UNSET:
        span._status = Status(StatusCode.ERROR, f"{type(error).__name__}: {message_of(error)}")


def sent(tracer: Any, kind: str, took: int, attributes: dict[str, Any]) -> None:
    """A message that a client has sent, in the trace of whoever sent it."""
    now = time.time_ns()
    span = tracer.start_span(f"workflow.{kind}", kind=SpanKind.PRODUCER, attributes=attributes, start_time=now - took)
    span.end(now)
