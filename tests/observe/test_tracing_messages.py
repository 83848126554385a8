"""Tracing: messages, as spans where they are sent and where they are taken in, linked with each other."""

from __future__ import annotations

from typing import Any

from opentelemetry.trace import SpanKind

from tests.observe.observed import (
    PATIENCE,
    begun,
    hears,
    resumed,
    tells,
    waits,
)
from tests.observe.watchers import Traces
from tests.worker.stage import stage, until


async def test_a_signal_is_a_span_where_it_is_sent_and_one_where_it_is_taken(database_url):
    traces = Traces()
    watching = {"observers": [traces.observer()]}
    async with stage(database_url, waits, client=watching) as on:
        run = await on.client.start(waits)
        await on.until_waiting(run)
        with traces.tracer.start_as_current_span("request") as request:
            await on.client.signal(run.id, "go", "on")
        await run.result(timeout=PATIENCE)
    by_kind = {span.kind: span for span in traces.named("workflow.signal", signal__name="go", run_id=run.id)}
    assert by_kind[SpanKind.PRODUCER].parent.span_id == request.get_span_context().span_id
    assert by_kind[SpanKind.CONSUMER].parent == traces.one("workflow.run").context


async def test_a_message_that_a_run_takes_is_linked_with_whoever_sent_it(database_url):
    traces = Traces()
    watching = {"observers": [traces.observer()]}
    async with stage(database_url, waits, hears, resumed, client=watching) as on:
        runs = [await on.client.start(one) for one in (waits, hears, resumed)]
        for run in runs:
            await on.until_waiting(run)
        with traces.tracer.start_as_current_span("request") as request:
            await on.client.signal(runs[0].id, "go")
            await on.client.publish("paid")
            await on.client.resume_hook(await runs[2].value("token"))
        for run in runs:
            await run.result(timeout=PATIENCE)
    for name in ("workflow.signal", "workflow.event", "workflow.hook"):
        [taken] = [span for span in traces.named(name) if span.kind is SpanKind.CONSUMER]
        assert [link.context.span_id for link in taken.links] == [request.get_span_context().span_id], name


async def test_a_message_of_whoever_is_in_no_trace_is_linked_with_nothing(database_url):
    traces = Traces()
    async with stage(database_url, waits, client={"observers": [traces.observer()]}) as on:
        run = await on.client.start(waits)
        await run.signal("go")
        await run.result(timeout=PATIENCE)
    [taken] = [span for span in traces.named("workflow.signal") if span.kind is SpanKind.CONSUMER]
    assert not taken.links


async def test_a_signal_of_another_run_is_linked_with_that_run(database_url):
    traces = Traces()
    async with stage(database_url, waits, tells, observers=[traces.observer()]) as on:
        run = await on.client.start(waits)
        await (await on.client.start(tells, run.id)).result(timeout=PATIENCE)
        await run.result(timeout=PATIENCE)
    sender = traces.one("workflow.run", workflow__name="tells")
    [taken] = [span for span in traces.named("workflow.signal") if span.kind is SpanKind.CONSUMER]
    assert [link.context.span_id for link in taken.links] == [sender.context.span_id]
    assert taken.context.trace_id != sender.context.trace_id


async def test_a_run_that_an_event_began_is_in_the_trace_of_whoever_published_it(database_url):
    traces = Traces()
    async with stage(database_url, begun, client={"observers": [traces.observer()]}) as on:
        with traces.tracer.start_as_current_span("request") as request:
            await on.client.publish("begin", 4)
        started: list[Any] = []

        async def is_begun() -> bool:
            started.extend((await on.client.runs().page()).items)
            return bool(started)

        await until(is_begun)
        await started[0].result(timeout=PATIENCE)
    assert traces.one("workflow.run").parent.span_id == request.get_span_context().span_id
