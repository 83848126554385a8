"""Observing runs: metrics for Prometheus, spans for OpenTelemetry, and log lines that name their run.

Look at three things: the request, the run, its steps and a span that a step makes itself are one trace; the counter
shows that a step was tried twice; a step's log line, from an ordinary logger, names its run and its trace.
"""

import asyncio
import logging
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast import AsyncClient, Retry, Worker, current_step, step, workflow
from holdfast.observe import JsonFormatter, LogContext, Prometheus, Tracing

log = logging.getLogger("shop")
tracer = trace.get_tracer("shop")


@step(retry=Retry(initial=0))
def pack(order: str) -> str:
    if current_step().attempt == 1:
        raise ConnectionError("the printer did not answer")
    with tracer.start_as_current_span("print the label"):
        log.warning("packing %s", order)
    return f"{order} is packed"


@workflow
async def checkout(order: str) -> str:
    return pack(order)


async def main() -> None:
    provider = TracerProvider()  # in production: an OTLP exporter in a BatchSpanProcessor
    provider.add_span_processor(SimpleSpanProcessor(spans := InMemorySpanExporter()))
    trace.set_tracer_provider(provider)
    handler = logging.StreamHandler(sys.stdout)
    handler.addFilter(LogContext())
    handler.setFormatter(JsonFormatter())
    log.addHandler(handler)
    metrics = Prometheus()
    async with AsyncClient("sqlite:///:memory:", observers=[metrics, Tracing()]) as client:
        with tracer.start_as_current_span("POST /orders"):
            run = await client.start(checkout, "o-1")
        async with Worker(client, workflows=[checkout]):  # uses the client's observers, too
            print(await run.result(timeout="20s"))
    print(*(line for line in metrics.render()[0].decode().splitlines() if "retries_total{" in line))
    names = {span.context.span_id: span.name for span in spans.get_finished_spans()}
    for span in spans.get_finished_spans():
        print(span.name, "below", names[span.parent.span_id] if span.parent else "nothing")
    print("traces:", len({span.context.trace_id for span in spans.get_finished_spans()}))


if __name__ == "__main__":
    asyncio.run(main())
