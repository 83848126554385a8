"""Who watches in these tests: a notebook of facts, and OpenTelemetry's own SDK with an exporter in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from holdfast.observe import Fact, Observer, Tracing

F = TypeVar("F")


class Notebook(Observer):
    """Writes every fact down."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def observe(self, fact: Fact) -> None:
        self.facts.append(fact)

    def of(self, kind: type[F]) -> list[F]:
        return [fact for fact in self.facts if isinstance(fact, kind)]


class Traces:
    """A provider whose spans stay here."""

    def __init__(self, sampler: Sampler = ALWAYS_ON) -> None:
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self._kept = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer = self.provider.get_tracer("tests")

    def observer(self) -> Tracing:
        return Tracing(self.provider)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._kept.get_finished_spans()

    def named(self, name: str, **attributes: Any) -> list[ReadableSpan]:
        """Spans of a name that have these attributes; an underscore stands for a dot."""
        wanted = {key.replace("__", "."): value for key, value in attributes.items()}
        return [
            span for span in self.spans if span.name == name and wanted.items() <= dict(span.attributes or {}).items()
        ]

    def one(self, name: str, **attributes: Any) -> ReadableSpan:
        [found] = self.named(name, **attributes)
        return found
