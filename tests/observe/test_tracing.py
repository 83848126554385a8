"""Tracing: spans of runs and of their steps, in the trace of whoever began it all."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.trace import StatusCode

from holdfast import AsyncClient, Client, RunFailed, Worker, current_run, step, wait_for_signal, workflow
from holdfast.observe import Tracing
from tests.observe.observed import (
    PATIENCE,
    both,
    counts,
    fails,
    parent,
    waits,
)
from tests.observe.watchers import Traces
from tests.worker.stage import ONCE, stage


async def test_a_run_and_its_steps_are_spans_with_the_agreed_attributes(database_url):
    traces = Traces()
    async with stage(database_url, both, observers=[traces.observer()]) as on:
        run = await on.client.start(both, 4)
        await run.result(timeout=PATIENCE)
    named = {"workflow.name": "both", "workflow.version": "7", "run_id": run.id, "status": "completed"}
    whole = traces.one("workflow.run")
    assert whole.attributes == named
    assert whole.parent is None
    first, second = traces.named("workflow.step")
    assert first.attributes == {**named, "step.name": "double", "step.kind": "async", "step.attempt": 1}
    assert second.attributes == {**named, "step.name": "half", "step.kind": "thread", "step.attempt": 1}
    for one in (first, second):
        assert one.parent == whole.context
        assert one.start_time <= one.end_time
    assert whole.start_time <= first.start_time
    assert second.end_time <= whole.end_time
    assert len({span.context.span_id for span in traces.spans}) == 3


async def test_a_failed_attempt_says_why_and_so_does_its_run(database_url):
    traces = Traces()
    async with stage(database_url, fails, observers=[traces.observer()]) as on:
        with pytest.raises(RunFailed):
            await (await on.client.start(fails)).result(timeout=PATIENCE)
    first, last = traces.named("workflow.step")
    assert [one.attributes["status"] for one in (first, last)] == ["retrying", "failed"]
    assert (last.status.status_code, last.status.description) == (StatusCode.ERROR, "LookupError: nothing there")
    [event] = last.events
    assert event.attributes["exception.type"] == "builtins.LookupError"
    assert "in broken" in event.attributes["exception.stacktrace"]
    assert traces.one("workflow.run", status="failed").status.status_code is StatusCode.ERROR


async def test_a_run_is_in_the_trace_of_whoever_started_it(database_url):
    traces = Traces()
    watching = {"observers": [traces.observer()]}
    async with stage(database_url, both, client=watching) as on:
        with traces.tracer.start_as_current_span("request") as request:
            run = await on.client.start(both, 4)
        await run.result(timeout=PATIENCE)
    whole = traces.one("workflow.run")
    assert whole.parent.span_id == request.get_span_context().span_id
    assert whole.context.trace_flags == request.get_span_context().trace_flags
    assert {span.context.trace_id for span in traces.spans} == {request.get_span_context().trace_id}


def test_a_blocking_client_carries_its_caller_s_trace_too(database_url):
    traces = Traces()
    with Client(database_url, observers=[traces.observer()]) as client:
        with traces.tracer.start_as_current_span("request") as request:
            run = client.start(both, 4)

        async def work() -> None:
            async with Worker(database_url, workflows=[both], observers=[traces.observer()]) as worker:
                await asyncio.to_thread(run.result, PATIENCE)
                worker.stop()

        asyncio.run(work())
    assert traces.one("workflow.run").parent.span_id == request.get_span_context().span_id


async def test_a_child_is_in_its_parent_s_trace_under_its_run(database_url):
    traces = Traces()
    async with stage(database_url, parent, both, observers=[traces.observer()]) as on:
        await (await on.client.start(parent, 4)).result(timeout=PATIENCE)
    outer = traces.one("workflow.run", workflow__name="parent")
    inner = traces.one("workflow.run", workflow__name="both")
    assert inner.parent.span_id == outer.context.span_id
    assert {span.context.trace_id for span in traces.spans} == {outer.context.trace_id}


async def test_a_successor_stays_in_the_trace_beside_the_run_it_continues(database_url):
    traces = Traces()
    watching = {"observers": [traces.observer()]}
    async with stage(database_url, counts, client=watching) as on:
        with traces.tracer.start_as_current_span("request") as request:
            run = await on.client.start(counts, 2)
        await run.result(timeout=PATIENCE)
    runs = traces.named("workflow.run")
    assert [one.attributes["status"] for one in runs] == ["continued", "continued", "completed"]
    assert {one.parent.span_id for one in runs} == {request.get_span_context().span_id}


async def test_a_run_s_span_survives_the_worker_it_began_in(database_url):
    before, after = Traces(), Traces()
    async with stage(database_url, waits, observers=[before.observer()]) as on:
        run = await on.client.start(waits)
        await on.until_waiting(run)
    async with stage(database_url, waits, observers=[after.observer()]) as on:
        await on.client.signal(run.id, "go", "on")
        await (await on.client.get_run(run.id)).result(timeout=PATIENCE)
    whole = after.one("workflow.run")
    assert before.named("workflow.run") == []
    assert before.one("workflow.step").parent == whole.context
    assert whole.start_time <= before.one("workflow.step").start_time


@pytest.mark.parametrize("deed", ["retry", "fork"])
async def test_a_retry_and_a_fork_are_below_the_run_they_stem_from(database_url, deed):
    traces = Traces()
    async with stage(database_url, fails, client={"observers": [traces.observer()]}) as on:
        run = await on.client.start(fails)
        await run.wait(PATIENCE)
        with traces.tracer.start_as_current_span("somebody who looks after it"):
            again = await getattr(on.client, deed)(run.id)
        await again.wait(PATIENCE)
    first, second = (traces.one("workflow.run", run_id=one.id) for one in (run, again))
    assert (second.parent.span_id, second.context.trace_id) == (first.context.span_id, first.context.trace_id)


async def test_a_retry_by_a_client_that_traces_nothing_stays_in_the_trace_of_the_run(database_url):
    traces = Traces()
    async with stage(database_url, fails, client={"observers": [traces.observer()]}) as on:
        with traces.tracer.start_as_current_span("request") as request:
            run = await on.client.start(fails)
        await run.wait(PATIENCE)
        async with AsyncClient(database_url) as other:
            again = await other.retry(run.id)
            await again.wait(PATIENCE)
    assert traces.one("workflow.run", run_id=again.id).parent.span_id == request.get_span_context().span_id


async def test_a_run_knows_its_trace_to_hand_it_on(database_url):
    traces = Traces()

    @step
    async def tell() -> str | None:
        return current_run().trace

    @workflow
    async def body() -> str | None:
        return await tell()

    async with stage(database_url, body, observers=[traces.observer()]) as on:
        told = await (await on.client.start(body)).result(timeout=PATIENCE)
    context = traces.one("workflow.run").context
    assert told == f"00-{context.trace_id:032x}-{context.span_id:016x}-01"


async def test_a_body_is_told_the_same_trace_whether_its_worker_traces_or_not(database_url):
    traces = Traces()

    @step
    async def pass_on(trace: str | None) -> str | None:
        return trace

    @workflow
    async def body() -> str | None:
        told = await pass_on(current_run().trace)
        await wait_for_signal("go")
        return told

    watching = {"observers": [traces.observer()]}
    async with stage(database_url, client=watching) as on:
        with traces.tracer.start_as_current_span("request") as request:
            run = await on.client.start(body)
        async with on.worker(body, observers=[]):
            await on.until_waiting(run)
        async with on.worker(body, observers=[traces.observer()]):
            await run.signal("go")
            told = await run.result(timeout=PATIENCE)
    assert told is not None
    assert f"{request.get_span_context().span_id:016x}" in told


async def test_the_body_of_a_retry_is_told_the_trace_of_the_run_that_it_retries(database_url):
    traces = Traces()
    is_mended = []

    @step
    async def pass_on(trace: str | None) -> str | None:
        return trace

    @step(retry=ONCE)
    async def breaks() -> None:
        assert is_mended

    @workflow
    async def body() -> str | None:
        told = await pass_on(current_run().trace)
        await breaks()
        return told

    watching = {"observers": [traces.observer()]}
    async with stage(database_url, body, client=watching) as on:
        with traces.tracer.start_as_current_span("request") as request:
            run = await on.client.start(body)
        await run.wait(PATIENCE)
        is_mended.append(True)
        told = await (await on.client.retry(run.id)).result(timeout=PATIENCE)
    assert told is not None
    assert f"{request.get_span_context().span_id:016x}" in told


async def test_without_tracing_a_run_passes_its_caller_s_trace_on(database_url):
    traces = Traces()

    @workflow
    async def inner() -> str | None:
        return current_run().trace

    @workflow
    async def outer() -> str | None:
        return await inner()

    watching = {"observers": [traces.observer()]}
    async with stage(database_url, outer, inner, client=watching, observers=[]) as on:
        with traces.tracer.start_as_current_span("request") as request:
            run = await on.client.start(outer)
        told = await run.result(timeout=PATIENCE)
    context = request.get_span_context()
    assert told == f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


async def test_a_trace_that_nobody_can_read_is_none(database_url):
    traces = Traces()

    class Odd(Tracing):
        def caller_trace(self):
            return "nonsense"

    async with AsyncClient(database_url, observers=[Odd(traces.provider)]) as client, Worker(client, workflows=[both]):
        assert await (await client.start(both, 4)).result(timeout=PATIENCE) == 4
    assert traces.one("workflow.run").parent is None
