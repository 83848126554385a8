"""Watching runs: metrics for Prometheus, spans for OpenTelemetry, and log lines that say which run they belong to.

Look at three things. The order is one trace: the web request that started it, the run, its steps, and the span that a
step makes itself, although the worker that finished the run is not the one that began it; whoever approved it has a
trace of their own, with the signal in it. The counters know that a step had to be tried twice. The log line of a step,
made by an ordinary logger, names its run and its trace.
"""

import asyncio
import logging
import sys
import tempfile

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from holdfast import AsyncClient, Retry, Worker, current_step, step, wait_for_signal, workflow
from holdfast.observe import JsonFormatter, LogContext, Prometheus, Tracing

log = logging.getLogger("shop")
tracer = trace.get_tracer("shop")


@step(retry=Retry(initial=0))
async def charge(cents: int) -> str:
    if current_step().attempt == 1:
        raise ConnectionError("the bank did not answer")
    return f"charged {cents} cents"


@step
def pack(order: str) -> str:
    # The step's own span is current here, in its thread: what is made now stands below it.
    with tracer.start_as_current_span("print the label"):
        log.info("packing %s", order)
    return f"{order} is packed"


@workflow
async def checkout(order: str, cents: int) -> str:
    await charge(cents)
    await wait_for_signal("approved")
    return pack(order)


async def main() -> None:
    # What an application does once, where it starts. In production the exporter is OTLP's, in a BatchSpanProcessor.
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    trace.set_tracer_provider(provider)
    handler = logging.StreamHandler(sys.stdout)
    handler.addFilter(LogContext())
    handler.setFormatter(JsonFormatter())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    metrics = Prometheus(registry=CollectorRegistry())

    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/shop.db", observers=[metrics, Tracing()]) as client:
            with tracer.start_as_current_span("POST /orders"):
                run = await client.start(checkout, "o-1", 1200)
            # A worker that is given a client takes its observers over.
            async with Worker(client, workflows=[checkout]):
                async for status in run.changes():
                    if status == "waiting":
                        break
            with tracer.start_as_current_span("POST /approvals"):
                await run.signal("approved")
            async with Worker(client, workflows=[checkout]):
                print(await run.result(timeout="20s"))

    found = sorted(spans.get_finished_spans(), key=lambda span: span.start_time or 0)
    names = {span.context.span_id: span.name for span in found}
    for span in found:
        above = "nothing" if span.parent is None else names[span.parent.span_id]
        shown = dict(span.attributes or {})
        print(f"{span.name} below {above}:", shown.get("step.name", ""), shown.get("status", ""))
    print("traces:", len({span.context.trace_id for span in found}))
    page = metrics.render()[0].decode()
    print("\n".join(line for line in page.splitlines() if "retries_total{" in line or "completed_total{" in line))


if __name__ == "__main__":
    asyncio.run(main())
