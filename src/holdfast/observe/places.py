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
_EVERY = 1 << 64
"""The bound below which all ids are."""
_LOWER = _EVERY - 1
"""The bits of a trace id by which it is sampled."""


class RunTrace(NonRecordingSpan):
    """A run's place in its trace. Every process that holds the run derives it anew, and gets the same.

    It is also the current span of a run's steps that are not sampled. Writing to it has no effect.
    """

    __slots__ = ("_created", "_ids", "_run_id", "_span_context", "flags", "is_sampled", "parent", "state")

    def __init__(
        self,
        created: Instant,
        run_id: str,
        ids: tuple[int, int] | None,
        flags: TraceFlags,
        state: TraceState,
        parent: SpanContext | None,
    ) -> None:
        self._created = created
        self._run_id = run_id
        self._ids = ids
        self.flags = flags
        self.state = state
        self.parent = parent
        self.is_sampled = flags is SAMPLED or flags.sampled
        self._span_context: SpanContext | None = None

    @property
    def context(self) -> SpanContext:
        """The context of the run's own span."""
        # Made when it is first read: by an exporter, for many runs in a row, which takes a fraction of the time; or
        # never, for a run that is not sampled.
        found = self._span_context
        if found is None:
            trace_id, span_id = self._ids or drawn(self._created, self._run_id)
            if self.parent is not None:
                trace_id = self.parent.trace_id
            found = self._span_context = make_context(
                OwnContext, (trace_id, span_id, False, self.flags, self.state, True)
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
        parent = None if caller is None else read(caller)
        if parent is not None:
            return self._below(parent, run, created)
        bound = self._bound
        if bound == _EVERY or bound == 0:
            return RunTrace(created, run.id, None, SAMPLED if bound else DROPPED, NO_STATE, None)
        ids = drawn(created, run.id)
        if bound is not None:
            return RunTrace(created, run.id, ids, SAMPLED if ids[0] & _LOWER < bound else DROPPED, NO_STATE, None)
        asked = self._sampler.should_sample(EMPTY, ids[0], "workflow.run", _CONSUMER, named(run))
        flags = SAMPLED if asked.decision is _KEPT else DROPPED
        return RunTrace(created, run.id, ids, flags, asked.trace_state or NO_STATE, None)

    def _below(self, parent: SpanContext, run: RunInfo | RunRecord, created: Instant) -> RunTrace:
        above = trace.set_span_in_context(NonRecordingSpan(parent), EMPTY)
        asked = self._sampler.should_sample(above, parent.trace_id, "workflow.run", _CONSUMER, named(run))
        flags = SAMPLED if asked.decision is _KEPT else DROPPED
        if parent.trace_flags & ~TraceFlags.SAMPLED:
            # The caller's other flags hold for the whole trace.
            flags = TraceFlags(flags | parent.trace_flags & ~TraceFlags.SAMPLED)
        return RunTrace(created, run.id, None, flags, asked.trace_state or NO_STATE, parent)


def drawn(created: Instant, run_id: str) -> tuple[int, int]:
    """A trace id and a span id for a run."""
    ids = _ids.copy()
    # With the time, because a user's own id for a run may also be used in another database.
    ids.update(f"{created} {run_id}".encode())
    high, low, span_id = _three(ids.digest())
    return high << 64 | low, span_id


def _bound_of(sampler: Sampler | None) -> int | None:
    """The bound below which the lower half of a trace id is sampled, for traces that begin here; None: ask the sampler.

    It gives the same answers as the SDK's own samplers. Asking them takes as long as all the rest together.
    """
    if type(sampler) is ParentBased:
        sampler = getattr(sampler, "_root", None)
    if type(sampler) is TraceIdRatioBased:
        return sampler.bound
    return _EVERY if sampler is ALWAYS_ON else 0 if sampler is ALWAYS_OFF else None
