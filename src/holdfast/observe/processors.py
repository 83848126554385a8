"""The span processors of a provider, and the cheapest way to hand spans to each.

Loaded only when tracing is asked for: this module imports OpenTelemetry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, SynchronousMultiSpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

_SILENT = {kind.on_start for kind in (SpanProcessor, BatchSpanProcessor, SimpleSpanProcessor)}
"""The `on_start` methods that do nothing."""
_FEW = 3


class Processors:
    """The processors of one provider, to which more may be added at any time."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._processor = processor
        self._known: tuple[SpanProcessor, ...] | None = None
        self._routes: tuple[Callable[[Sequence[ReadableSpan]], None], ...] = (_Route(processor),)
        self.tells_starts = True
        """Whether any processor does something when a span begins."""

    def look(self) -> None:
        """Look for processors that were added since the last look."""
        found: tuple[SpanProcessor, ...] | None = getattr(self._processor, "_span_processors", None)
        if found is self._known or found is None:
            return
        if type(self._processor) is SynchronousMultiSpanProcessor:
            self._known = found
            self._routes = tuple(_Route(one) for one in found)
            self.tells_starts = not all(type(one).on_start in _SILENT for one in found)

    def begun(self, span: Any, above: Context) -> None:
        """Report a span that has begun in the context `above`."""
        self._processor.on_start(span, above)

    def ended(self, spans: Sequence[ReadableSpan]) -> None:
        """Report spans that have ended to all processors. Then raises the last error, if a processor raised."""
        broken: Exception | None = None
        for route in self._routes:
            try:
                route(spans)
            except Exception as error:
                broken = error
        if broken is not None:
            raise broken


class _Route:
    """Hands spans, all of them sampled, to one processor."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._on_end = processor.on_end
        # The SDK's batch processor makes six checks, with one result for a whole group, before it queues a span.
        self._batch = getattr(processor, "_batch_processor", None) if type(processor) is BatchSpanProcessor else None
        queue = getattr(self._batch, "_queue", None)
        self._queue: deque[ReadableSpan] | None = queue if isinstance(queue, deque) and queue.maxlen else None

    def __call__(self, spans: Sequence[ReadableSpan]) -> None:
        queue = self._queue
        if queue is None or len(spans) < _FEW or len(queue) + len(spans) > (queue.maxlen or 0) or self._is_shut:
            return self._each(spans)
        # The first span makes the checks for all, such as whether this process is a fork. The last one checks whether
        # enough spans are queued to be exported.
        self._on_end(spans[0])
        queue.extendleft(spans[1:-1])
        self._on_end(spans[-1])

    @property
    def _is_shut(self) -> bool:
        return getattr(self._batch, "_shutdown", True) is not False

    def _each(self, spans: Sequence[ReadableSpan]) -> None:
        broken: Exception | None = None
        for span in spans:
            try:
                self._on_end(span)
            except Exception as error:
                broken = error
        if broken is not None:
            raise broken
