"""Groups of spans on their way to the SDK's own processors, and to others."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast.observe.processors import Processors

NEVER = 3_600_000.0
"""Milliseconds until the batch processor exports by itself."""


def spans_of(count: int) -> list[ReadableSpan]:
    """Spans that have ended."""
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("tests")
    found = []
    for number in range(count):
        span = tracer.start_span(f"span-{number}")
        span.end()
        found.append(span)
    return found


@pytest.fixture
def provider():
    found = TracerProvider(shutdown_on_exit=False)
    yield found
    found.shutdown()


def ways_to(provider: TracerProvider) -> Processors:
    processors = Processors(provider.get_tracer("tests").span_processor)
    processors.look()
    return processors


@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_all_of_a_group_are_exported_in_their_order(provider, count):
    exported = InMemorySpanExporter()
    provider.add_span_processor(BatchSpanProcessor(exported, schedule_delay_millis=NEVER))
    ways_to(provider).ended(spans_of(count))
    provider.force_flush()
    assert [span.name for span in exported.get_finished_spans()] == [f"span-{number}" for number in range(count)]


def test_a_group_that_fills_a_batch_wakes_the_exporter(provider):
    exported = InMemorySpanExporter()
    batch = BatchSpanProcessor(exported, schedule_delay_millis=NEVER, max_export_batch_size=10)
    provider.add_span_processor(batch)
    ways_to(provider).ended(spans_of(10))
    # It is awake, so it needs no more than to be waited for.
    batch.shutdown()
    assert len(exported.get_finished_spans()) == 10


def test_a_group_that_does_not_fit_is_put_to_the_processor_one_by_one(provider, monkeypatch):
    """It decides which to drop, and says so."""
    batch = BatchSpanProcessor(
        InMemorySpanExporter(), schedule_delay_millis=NEVER, max_queue_size=10, max_export_batch_size=10
    )
    asked = []
    monkeypatch.setattr(batch, "on_end", asked.append)
    provider.add_span_processor(batch)
    spans = spans_of(11)
    ways_to(provider).ended(spans)
    assert asked == spans


def test_a_processor_that_was_shut_down_is_asked_about_each(provider):
    exported = InMemorySpanExporter()
    batch = BatchSpanProcessor(exported, schedule_delay_millis=NEVER)
    provider.add_span_processor(batch)
    ways = ways_to(provider)
    batch.shutdown()
    ways.ended(spans_of(5))
    assert not batch._batch_processor._queue


def test_a_processor_of_another_class_hears_of_each_span(provider):
    heard = []

    class Filtering(BatchSpanProcessor):
        def on_end(self, span):
            if span.name != "span-2":
                heard.append(span.name)

    provider.add_span_processor(Filtering(InMemorySpanExporter(), schedule_delay_millis=NEVER))
    ways_to(provider).ended(spans_of(5))
    assert heard == ["span-0", "span-1", "span-3", "span-4"]


def test_a_processor_that_raises_keeps_no_other_from_its_spans(provider):
    heard = []

    class Breaking(SpanProcessor):
        def on_end(self, span):
            if span.name == "span-1":
                raise ValueError(span.name)
            heard.append(span.name)

    exported = InMemorySpanExporter()
    provider.add_span_processor(Breaking())
    provider.add_span_processor(BatchSpanProcessor(exported, schedule_delay_millis=NEVER))
    with pytest.raises(ValueError, match="span-1"):
        ways_to(provider).ended(spans_of(4))
    provider.force_flush()
    assert heard == ["span-0", "span-2", "span-3"]
    assert len(exported.get_finished_spans()) == 4
