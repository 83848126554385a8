"""OpenTelemetry contexts: read from text, written as text, and made current.

What every step pays for takes shortcuts through OpenTelemetry's internals, and its public API where those differ from
what the shortcut expects.

Loaded only when tracing is asked for: this module imports OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import itemgetter

from opentelemetry import context as keeping
from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.context.contextvars_context import ContextVarsRuntimeContext
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

EMPTY = Context()
NO_STATE = TraceState()
[CURRENT] = trace.set_span_in_context(trace.INVALID_SPAN, EMPTY)
"""The key under which a context holds the current span."""


class _Sampled(TraceFlags):
    """Flags whose `sampled` is a constant, not a computed property: processors ask for it on every span."""

    sampled = True


SAMPLED, DROPPED = _Sampled(TraceFlags.SAMPLED), TraceFlags(TraceFlags.DEFAULT)


def written(context: SpanContext) -> str:
    """A span's context in W3C's form: the traceparent, followed by a space and the tracestate if there is one."""
    text = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    return f"{text} {context.trace_state.to_header()}" if context.trace_state else text


def read(text: str | None) -> SpanContext | None:
    """The span context in a text from `written`; None for any other text."""
    if text is None:
        return None
    parent, _, state = text.partition(" ")
    parts = parent.split("-")
    try:
        trace_id, span_id, flags = (int(part, 16) for part in parts[1:4])
    except ValueError:
        return None
    found = SpanContext(
        trace_id, span_id, True, TraceFlags(flags), TraceState.from_header([state]) if state else NO_STATE
    )
    return found if found.is_valid else None


def current_trace() -> str | None:
    """The current span's context as text; None outside of any trace."""
    context = trace.get_current_span().get_span_context()
    return written(context) if context.is_valid else None


@contextmanager
def within(text: str) -> Iterator[None]:
    """Enter a trace that came from outside, unless there is a current span: then another tool has entered it."""
    found = None if trace.get_current_span().get_span_context().is_valid else read(text)
    if found is None:
        yield
        return
    token = attach(trace.set_span_in_context(NonRecordingSpan(found)))
    try:
        yield
    finally:
        detach(token)


class OwnContext(SpanContext):
    """A SpanContext that is made without checks of its parts, which are our own."""

    trace_flags = property(itemgetter(3))  # As the base's property, without a call in Python.


make_context: Callable[[type[SpanContext], tuple[int, int, bool, TraceFlags, TraceState, bool]], SpanContext] = (
    tuple.__new__
)

if make_context(OwnContext, (1, 2, False, SAMPLED, NO_STATE, True)) != SpanContext(1, 2, False, SAMPLED):
    # In this release of OpenTelemetry a SpanContext is another tuple.
    def make_context(
        kind: type[SpanContext], parts: tuple[int, int, bool, TraceFlags, TraceState, bool]
    ) -> SpanContext:
        return SpanContext(*parts[:5])


def _setter() -> Callable[[Context], object]:
    """The cheapest function that makes a context current: the contextvar's `set`, which `attach` calls by default."""
    kept = getattr(keeping, "_RUNTIME_CONTEXT", None)
    found = getattr(kept, "_current_context", None)
    return found.set if type(kept) is ContextVarsRuntimeContext and isinstance(found, ContextVar) else attach


make_current = _setter()
