"""Tracing: what is current while a step executes, and who is sampled."""

from __future__ import annotations

import asyncio
import json
import threading

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased

from holdfast import step, workflow
from tests.observe.observed import (
    PATIENCE,
    waits,
)
from tests.observe.watchers import Traces
from tests.worker.stage import stage


async def test_spans_that_a_step_makes_are_below_its_own_in_threads_too(database_url):
    traces = Traces()

    @step
    async def on_the_loop() -> None:
        with traces.tracer.start_as_current_span("mine"):
            await asyncio.sleep(0)

    @step
    def in_a_thread() -> None:
        with traces.tracer.start_as_current_span("mine"):
            pass

    @workflow
    async def body() -> None:
        await on_the_loop()
        in_a_thread()

    async with stage(database_url, body, observers=[traces.observer()]) as on:
        await (await on.client.start(body)).result(timeout=PATIENCE)
    steps = [span.context.span_id for span in traces.named("workflow.step")]
    assert [span.parent.span_id for span in traces.named("mine")] == steps


async def test_the_current_span_of_a_step_can_be_written_to(database_url):
    traces = Traces()

    @step
    async def telling() -> None:
        span = trace.get_current_span()
        span.set_attribute("order", "o-1")
        span.set_attributes({"cents": 100, "status": "mine"})
        span.add_event("packed", {"boxes": 2})
        span.update_name("pack")
        span.end()
        assert span.is_recording()

    @workflow
    async def body() -> None:
        await telling()

    async with stage(database_url, body, observers=[traces.observer()]) as on:
        await (await on.client.start(body)).result(timeout=PATIENCE)
    span = traces.one("pack", order="o-1", cents=100)
    assert [(event.name, dict(event.attributes)) for event in span.events] == [("packed", {"boxes": 2})]
    assert json.loads(span.to_json())["attributes"]["order"] == "o-1"


async def test_a_span_holds_no_more_events_than_the_sdk_allows(database_url):
    traces = Traces()

    @step
    async def chatty() -> None:
        for number in range(SpanLimits().max_events + 1):
            trace.get_current_span().add_event(f"event {number}")

    @workflow
    async def body() -> None:
        await chatty()

    async with stage(database_url, body, observers=[traces.observer()]) as on:
        await (await on.client.start(body)).result(timeout=PATIENCE)
    assert len(traces.one("workflow.step").events) == SpanLimits().max_events


async def test_what_a_span_says_can_be_read_while_its_step_executes(database_url):
    traces = Traces()
    seen = []

    @step
    async def looking() -> None:
        span = trace.get_current_span()
        span.set_attribute("order", "o-1")
        seen.append(dict(span.attributes))

    @workflow
    async def body() -> None:
        await looking()

    async with stage(database_url, body, observers=[traces.observer()]) as on:
        run = await on.client.start(body)
        await run.result(timeout=PATIENCE)
    named = {"workflow.name": "body", "workflow.version": "1", "run_id": run.id, "order": "o-1"}
    assert seen == [{**named, "step.name": "looking", "step.kind": "async", "step.attempt": 1}]


async def test_a_context_handed_to_another_thread_still_leads_to_the_step(database_url):
    traces = Traces()

    @step
    def spread() -> None:
        here = contexts.get_current()

        def elsewhere() -> None:
            contexts.attach(here)
            with traces.tracer.start_as_current_span("elsewhere"):
                pass

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    @workflow
    async def body() -> None:
        spread()

    async with stage(database_url, body, observers=[traces.observer()]) as on:
        await (await on.client.start(body)).result(timeout=PATIENCE)
    assert traces.one("elsewhere").parent.span_id == traces.one("workflow.step").context.span_id


async def test_one_step_s_span_is_not_current_in_another(database_url):
    seen = []

    @step
    async def look() -> None:
        seen.append(trace.get_current_span().get_span_context().span_id)

    @workflow
    async def body() -> None:
        await asyncio.gather(look(), look())
        await look()

    traces = Traces()
    async with stage(database_url, body, observers=[traces.observer()]) as on:
        await (await on.client.start(body)).result(timeout=PATIENCE)
    assert sorted(seen) == sorted(span.context.span_id for span in traces.named("workflow.step"))


async def test_a_caller_that_is_not_sampled_gets_no_spans_and_neither_does_what_its_steps_make(database_url):
    traces = Traces(ParentBased(TraceIdRatioBased(1.0)))
    caller = Traces(ALWAYS_OFF)
    seen = []

    @step
    async def inner() -> None:
        with traces.tracer.start_as_current_span("mine"):
            seen.append(trace.get_current_span().get_span_context().trace_id)

    @workflow
    async def body() -> None:
        await inner()

    watching = {"observers": [traces.observer()]}
    async with stage(database_url, body, client=watching) as on:
        with caller.tracer.start_as_current_span("request") as request:
            run = await on.client.start(body)
        await run.result(timeout=PATIENCE)
    assert list(traces.spans) == []
    assert seen == [request.get_span_context().trace_id]


async def test_workers_agree_on_which_runs_are_sampled(database_url):
    first, second = (Traces(ParentBased(TraceIdRatioBased(0.5))) for _ in range(2))
    async with stage(database_url, waits, observers=[first.observer()]) as on:
        runs = [await on.client.start(waits) for _ in range(20)]
        for run in runs:
            await on.until_waiting(run)
    async with stage(database_url, waits, observers=[second.observer()]) as on:
        for run in runs:
            await on.client.signal(run.id, "go")
        for run in runs:
            await (await on.client.get_run(run.id)).result(timeout=PATIENCE)
    stepped = {span.attributes["run_id"] for span in first.named("workflow.step")}
    ended = {span.attributes["run_id"] for span in second.named("workflow.run")}
    assert stepped == ended
    assert 0 < len(ended) < len(runs)
