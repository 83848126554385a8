"""Who hears of spans: the processors of a provider, and the shortest way to each.

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
"""What does nothing when a span begins."""
_FEW = 3


class Processors:
    """Those of one provider, which may be given further ones at any time."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._processor = processor
        self._known: tuple[SpanProcessor, ...] | None = None
        self._ways: tuple[Callable[[Sequence[ReadableSpan]], None], ...] = (_Way(processor),)
        self.tells_starts = True
        """Whether anybody does anything when a span begins."""

    def look(self) -> None:
        """Find out who they are by now."""
        found: tuple[SpanProcessor, ...] | None = getattr(self._processor, "_span_processors", None)
        if found is self._known or found is None:
            return
        if type(self._processor) is SynchronousMultiSpanProcessor:
            self._known = found
            self._ways = tuple(_Way(one) for one in found)
            self.tells_starts = not all(type(one).on_start in _SILENT for one in found)

    def begun(self, span: Any, above: Context) -> None:
        """A span has begun, inside what `above` holds."""
        self._processor.on_start(span, above)

    def ended(self, spans: Sequence[ReadableSpan]) -> None:
        """These have ended. What a processor raises keeps none of the others from its own; then it is raised."""
        broken: Exception | None = None
        for way in self._ways:
            try:
                way(spans)
            except Exception as error:
                broken = error
        if broken is not None:
            raise broken


class _Way:
    """The way to one processor. All spans that come here are sampled."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._tell = processor.on_end
        # The SDK's own puts each span into a queue, after six questions whose answers are the same for all of a group.
        self._batch = getattr(processor, "_batch_processor", None) if type(processor) is BatchSpanProcessor else None
        queue = getattr(self._batch, "_queue", None)
        self._queue: deque[ReadableSpan] | None = queue if isinstance(queue, deque) and queue.maxlen else None

    def __call__(self, spans: Sequence[ReadableSpan]) -> None:
        queue = self._queue
        if queue is None or len(spans) < _FEW or len(queue) + len(spans) > (queue.maxlen or 0) or self._is_shut:
            return self._each(spans)
        # The first one's questions are those of all, such as whether this process is a fork; the last one's is whether
        # there are enough of them by now to be exported.
        self._tell(spans[0])
        queue.extendleft(spans[1:-1])
        self._tell(spans[-1])

    @property
    def _is_shut(self) -> bool:
        return getattr(self._batch, "_shutdown", True) is not False

    def _each(self, spans: Sequence[ReadableSpan]) -> None:
        broken: Exception | None = None
        for span in spans:
            try:
                self._tell(span)
            except Exception as error:
                broken = error
        if broken is not None:
            raise broken
