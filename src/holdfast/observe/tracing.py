"""Tracing: runs, steps and messages as OpenTelemetry's spans.

A run outlives processes, and a span object does not. So a run's span id is derived from the run's id, and every process
that holds the run gives it to its steps as their parent. The one span `workflow.run` is made at the run's end, from
what the store has kept: the caller's trace, and when the run began. Each process asks the sampler about a run once.
All get the same answer, since they ask with the caller's decision or with a trace id derived from the run's id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from holdfast.define import RunInfo, StepInfo
from holdfast.errors import DefinitionError
from holdfast.extras import load_extra
from holdfast.model import RunRecord, instant_of

from .facts import Fact, MessageSent, MessageTaken, RunEnded, StepEnd, StepEnded
from .observers import GroupObserver

_log = logging.getLogger("holdfast.observe")
_WHO = "holdfast.observe.Tracing"


class Tracing(GroupObserver):
    """Makes spans `workflow.run`, `workflow.step` and `workflow.signal`.

        Worker(url, workflows=[checkout], observers=[Tracing()])
        AsyncClient(url, observers=[Tracing()])      # so that a run knows in whose trace it was started

    Spans go to the processors of `provider`, a TracerProvider of OpenTelemetry's SDK. Without it, they go to the
    provider that is set when the worker begins (by `opentelemetry.trace.set_tracer_provider` or
    `opentelemetry-instrument`). The provider's sampler decides about runs, and steps follow their run. A step's span is
    current while the step executes, in threads too. Needs `holdfast[otel]`.
    """

    def __init__(self, provider: Any = None) -> None:
        self._api = load_extra("opentelemetry.trace", extra="otel", needed_by=_WHO)
        load_extra("opentelemetry.sdk.trace", extra="otel", needed_by=_WHO)
        self._contexts = load_extra("holdfast.observe.contexts", extra="otel", needed_by=_WHO)
        self._spans_module = load_extra("holdfast.observe.spans", extra="otel", needed_by=_WHO)
        self._provider = provider
        self._spans: Any = None
        if provider is not None:
            self._spans = self._made(provider)
            if self._spans is None:
                raise DefinitionError(
                    f"Tracing({provider!r}): expected a TracerProvider of OpenTelemetry's SDK, whose spans can be made"
                )

    def open(self) -> None:
        """Find the provider that is set now, if none was given."""
        if self._spans is None:
            self._spans = self._made(self._api.get_tracer_provider())
            if self._spans is None:
                _log.warning(
                    "tracing is on, and no TracerProvider of OpenTelemetry's SDK is set, so there are no spans; call "
                    "opentelemetry.trace.set_tracer_provider(...) before the worker begins, or start it by "
                    "opentelemetry-instrument"
                )

    def _made(self, provider: Any) -> Any:
        tracer = provider.get_tracer("holdfast")
        return self._spans_module.Spans(tracer) if hasattr(tracer, "span_processor") else None

    def caller_trace(self) -> str | None:
        found: str | None = self._contexts.current_trace()
        return found

    def within(self, trace: str) -> AbstractContextManager[object]:
        """A context manager that puts the code into this trace, from an HTTP request, unless it is in one already."""
        found: AbstractContextManager[object] = self._contexts.within(trace)
        return found

    def trace_of(self, run: RunRecord) -> str | None:
        spans = self._spans or self._made(self._api.get_tracer_provider())
        if spans is None:
            return None
        found: str = spans.place(run, instant_of(run.created_at), run.trace).text
        return found

    def hold(self, run: RunInfo) -> None:
        if self._spans is not None:
            self._spans.hold(run)

    def enter(self, step: StepInfo) -> None:
        if self._spans is not None:
            self._spans.enter(step)

    def shortcut(self, name: str) -> Callable[..., None] | None:
        # Not if a derived class overrides the method.
        is_ours = getattr(type(self), name) is getattr(Tracing, name)
        return getattr(self._spans, name) if is_ours and self._spans is not None else None

    def observe(self, fact: Fact) -> None:
        kind = fact.__class__
        if kind is StepEnded:
            self.observe_group((fact.end,), ())  # type: ignore[union-attr]  # its class says so
        elif kind is RunEnded:
            self.observe_group((), (fact,))  # type: ignore[arg-type]  # as above
        elif kind is MessageTaken:
            self._message_taken(fact)  # type: ignore[arg-type]  # as above
        elif kind is MessageSent:
            self._message_sent(fact)  # type: ignore[arg-type]  # as above

    def observe_group(self, steps: Sequence[StepEnd], runs: Sequence[RunEnded]) -> None:
        if self._spans is not None:
            self._spans.finish(steps, runs)

    def _message_taken(self, fact: MessageTaken) -> None:
        if self._spans is not None:
            self._spans.message(fact.run, fact.kind, fact.name or "", fact.at, fact.trace)

    def _message_sent(self, fact: MessageSent) -> None:
        tracer = (self._provider or self._api).get_tracer("holdfast")
        attributes: dict[str, Any] = {}
        if fact.name is not None:
            attributes[f"{fact.kind}.name"] = fact.name
        if fact.run_id is not None:
            attributes["run_id"] = fact.run_id
        self._spans_module.message_sent(tracer, fact.kind, fact.took * 1_000, attributes)
