"""Where a run stands in a trace: that of its caller, or one of its own. And whether it is sampled.

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

# By names of our own: to get a member of an enum from its class takes a call in Python.
_CONSUMER, _KEPT = SpanKind.CONSUMER, Decision.RECORD_AND_SAMPLE
_ids = blake2b(person=b"holdfast span", digest_size=24)
_three = Struct(">QQQ").unpack


class RunTrace(NonRecordingSpan):
    """Where a run stands in its trace: worked out anew by every process that holds it, and always the same.

    It is also what steps see as their current span if they have none of their own: the run's, which is not to be
    written to.
    """

    __slots__ = ("_made", "flags", "is_sampled", "parent", "span_id", "state", "trace_id")

    def __init__(
        self, trace_id: int, span_id: int, flags: TraceFlags, state: TraceState, parent: SpanContext | None
    ) -> None:
        self.trace_id = trace_id
        self.span_id = span_id
        self.flags = flags
        self.state = state
        self.parent = parent
        self.is_sampled = flags is SAMPLED or flags.sampled
        self._made: SpanContext | None = None

    @property
    def context(self) -> SpanContext:
        """Its own."""
        # When it is first asked for: a run that is not sampled may have many steps that never do.
        found = self._made
        if found is None:
            found = self._made = make_context(
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
    """Finds where runs stand."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._bound = _bound_of(sampler)

    def place(self, run: RunInfo | RunRecord, created: Instant, caller: str | None) -> RunTrace:
        """In its caller's trace, or at the head of one of its own."""
        ids = _ids.copy()
        # The time is there because an id that a user has chosen may be somebody else's, too.
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
            # Whatever else the caller says about its trace holds for all of it.
            flags = TraceFlags(flags | parent.trace_flags & ~TraceFlags.SAMPLED)
        return RunTrace(parent.trace_id, span_id, flags, asked.trace_state or NO_STATE, parent)


def _bound_of(sampler: Sampler | None) -> int | None:
    """Below what the lower half of an id must be for a trace that begins here to be sampled; None: ask the sampler.

    So the SDK's own samplers decide, and to ask them takes as long as all the rest.
    """
    if type(sampler) is ParentBased:
        sampler = getattr(sampler, "_root", None)
    if type(sampler) is TraceIdRatioBased:
        return sampler.bound
    return 1 << 64 if sampler is ALWAYS_ON else 0 if sampler is ALWAYS_OFF else None
