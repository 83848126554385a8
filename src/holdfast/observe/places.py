"""The place of a run in a trace, its caller's or its own, and whether the run is sampled.

Loaded only when tracing is asked for: this module imports OpenTelemetry.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct

from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Decision, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, TraceState

from holdfast.define import RunInfo
from holdfast.model import Instant, RunRecord

from .contexts import DROPPED, EMPTY, NO_STATE, SAMPLED, OwnContext, make_context, read, written
from .live import named

# Looked up once: getting a member from its enum class takes a call in Python.
_CONSUMER, _KEPT = SpanKind.CONSUMER, Decision.RECORD_AND_SAMPLE
_ids = blake2b(person=b"holdfast span", digest_size=24)
_three = Struct(">QQQ").unpack


class RunTrace(NonRecordingSpan):
    """A run's place in its trace. Every process that holds the run derives it anew, and gets the same.

    It is also the current span of a run's steps that are not sampled. Writing to it has no effect.
    """

    __slots__ = ("_span_context", "flags", "is_sampled", "parent", "span_id", "state", "trace_id")

    def __init__(
        self, trace_id: int, span_id: int, flags: TraceFlags, state: TraceState, parent: SpanContext | None
    ) -> None:
        self.trace_id = trace_id
        self.span_id = span_id
        self.flags = flags
        self.state = state
        self.parent = parent
        self.is_sampled = flags is SAMPLED or flags.sampled
        self._span_context: SpanContext | None = None

    @property
    def context(self) -> SpanContext:
        """The context of the run's own span."""
        # Made when it is first read: for a run that is not sampled it may never be.
        found = self._span_context
        if found is None:
            found = self._span_context = make_context(
                OwnContext, (self.trace_id, self.span_id, False, self.flags, self.state, True)
            )
        return found

    _context = context

    def get_span_context(self) -> SpanContext:
        return self.context

    @property
    def text(self) -> str:
        return written(self.context)


class Places:
    """Finds the place of each run, and asks the sampler about it."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._bound = _bound_of(sampler)

    def place(self, run: RunInfo | RunRecord, created: Instant, caller: str | None) -> RunTrace:
        """The run's place: in its caller's trace, or at the root of its own."""
        ids = _ids.copy()
        # With the time, because a user's own id for a run may also be used in another database.
        ids.update(f"{created} {run.id}".encode())
        high, low, span_id = _three(ids.digest())
        parent = None if caller is None else read(caller)
        if parent is not None:
            return self._below(parent, span_id, run)
        trace_id = high << 64 | low
        if self._bound is not None:
            return RunTrace(trace_id, span_id, SAMPLED if low < self._bound else DROPPED, NO_STATE, None)
        asked = self._sampler.should_sample(EMPTY, trace_id, "workflow.run", _CONSUMER, named(run))
        flags = SAMPLED if asked.decision is _KEPT else DROPPED
        return RunTrace(trace_id, span_id, flags, asked.trace_state or NO_STATE, None)

    def _below(self, parent: SpanContext, span_id: int, run: RunInfo | RunRecord) -> RunTrace:
        above = trace.set_span_in_context(NonRecordingSpan(parent), EMPTY)
        asked = self._sampler.should_sample(above, parent.trace_id, "workflow.run", _CONSUMER, named(run))
        flags = SAMPLED if asked.decision is _KEPT else DROPPED
        if parent.trace_flags & ~TraceFlags.SAMPLED:
            # The caller's other flags hold for the whole trace.
            flags = TraceFlags(flags | parent.trace_flags & ~TraceFlags.SAMPLED)
        return RunTrace(parent.trace_id, span_id, flags, asked.trace_state or NO_STATE, parent)


def _bound_of(sampler: Sampler | None) -> int | None:
    """The bound below which the lower half of a trace id is sampled, for traces that begin here; None: ask the sampler.

    It gives the same answers as the SDK's own samplers. Asking them takes as long as all the rest together.
    """
    if type(sampler) is ParentBased:
        sampler = getattr(sampler, "_root", None)
    if type(sampler) is TraceIdRatioBased:
        return sampler.bound
    return 1 << 64 if sampler is ALWAYS_ON else 0 if sampler is ALWAYS_OFF else None
