"""The cost of being observed: throughput with metrics and spans, compared with the same work and no observer.

With the real Prometheus client and OpenTelemetry's real SDK and batch processor. Only the exporter discards what it
gets, for the costs of encoding and network are its own. The steps are empty, so this is the worst case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from prometheus_client import CollectorRegistry

from holdfast.observe import Observer, Prometheus, Tracing

from .databases import Engine
from .figures import Figure, compared, ratio_at_least, ratio_at_most
from .scales import Scale
from .throughput import STEPS, Work, work

WATCHED = {"metrics": 0.0, "metrics, spans of 1 run in 10": 0.1, "metrics, spans of every run": 1.0}
"""By what observes: the share of runs that is sampled."""


_AT_ONCE = 100
"""A worker's default concurrency."""


class Discarding(SpanExporter):
    """Reads the attributes of spans, as every exporter does, and discards them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            dict(span.attributes or {})
        return SpanExportResult.SUCCESS


def measure(scale: Scale, engine: Engine) -> list[Figure]:
    return asyncio.run(_measure(scale, engine))


async def _measure(scale: Scale, engine: Engine) -> list[Figure]:
    at_once = _AT_ONCE
    watched: dict[str, list[Work]] = {name: [] for name in WATCHED}
    alone: dict[str, list[Work]] = {name: [] for name in WATCHED}
    rounds, runs = scale.watched
    await work(engine, at_once, runs)
    for _ in range(rounds):
        for name, ratio in WATCHED.items():
            alone[name].append(await work(engine, at_once, runs))
            provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(ratio)), shutdown_on_exit=False)
            # A queue that never fills up: dropping spans costs less than exporting them.
            provider.add_span_processor(BatchSpanProcessor(Discarding(), max_queue_size=1_000_000))
            observers: list[Observer] = [Prometheus(registry=CollectorRegistry())]
            if ratio:
                observers.append(Tracing(provider))
            watched[name].append(await work(engine, at_once, runs, observers))
            provider.shutdown()
    count = STEPS * runs
    return [figure for name in WATCHED for figure in _figures(name, count, watched[name], alone[name])]


def _figures(name: str, count: int, watched: Sequence[Work], alone: Sequence[Work]) -> list[Figure]:
    """Throughput, which was promised, and processor time, which is comparable even if others use the machine."""
    return [
        compared(
            f"steps, {name}",
            "steps/s",
            [count / one.took for one in watched],
            "nobody watching",
            [count / one.took for one in alone],
            ratio_at_least(0.9, "0.9"),
        ),
        compared(
            f"a step's processor time, {name}",
            "µs",
            [one.busy / count * 1_000_000 for one in watched],
            "nobody watching",
            [one.busy / count * 1_000_000 for one in alone],
            ratio_at_most(1.1),
        ),
    ]
