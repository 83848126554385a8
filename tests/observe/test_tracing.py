"""Tracing: spans of runs, steps and messages, in the trace of whoever began it all."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from typing import Any

import pytest
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, StatusCode

import holdfast
from holdfast import AsyncClient, Client, DefinitionError, Retry, RunFailed, Worker, current_run, step, workflow
from holdfast.observe import Tracing
from tests.observe.watchers import Traces
from tests.worker.stage import stage, until

PATIENCE = "60s"


@step
async def double(number: int) -> int:
    return number * 2


@step
def half(number: int) -> int:
    return number // 2


@step(retry=Retry(attempts=2, initial=0))
async def broken() -> None:
    raise LookupError("nothing there")


@workflow(version="7")
async def both(number: int) -> int:
    return half(await double(number))


@workflow
async def fails() -> None:
    await broken()


@workflow
async def parent(number: int) -> int:
    return await both(number)


@workflow
async def waits() -> str:
    await double(1)
    return str(await holdfast.wait_for_signal("go"))


@workflow
async def hears() -> None:
    await holdfast.wait_for_event("paid")


@workflow
async def resumed() -> None:
    hook = holdfast.hook()
    holdfast.set_value("token", hook.token)
    await hook.wait()


@workflow
async def tells(run_id: str) -> None:
    holdfast.signal(run_id, "go")


@workflow(on_event="begin")
async def begun(number: int) -> int:
    return await double(number)


@workflow
async def counts(number: int) -> int:
    await double(number)
    if number:
        counts.continue_as_new(number - 1)
    return number


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


async def test_a_run_knows_its_trace_to_hand_it_on(database_url):
    traces = Traces()

    @workflow
    async def body() -> str | None:
        return current_run().trace

    async with stage(database_url, body, observers=[traces.observer()]) as on:
        told = await (await on.client.start(body)).result(timeout=PATIENCE)
    context = traces.one("workflow.run").context
    assert told == f"00-{context.trace_id:032x}-{context.span_id:016x}-01"


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


async def test_processors_see_spans_begin(database_url):
    begun = []

    class Stamping(SpanProcessor):
        def on_start(self, span, parent_context=None):
            span.set_attribute("team", "shipping")
            begun.append(span.name)

    traces = Traces()
    traces.provider.add_span_processor(Stamping())
    async with stage(database_url, both, observers=[traces.observer()]) as on:
        await (await on.client.start(both, 4)).result(timeout=PATIENCE)
    assert sorted(begun) == ["workflow.run", "workflow.step", "workflow.step"]
    assert len(traces.named("workflow.step", team="shipping")) == 2


async def test_a_processor_that_is_added_while_a_worker_runs_sees_the_runs_that_come(database_url):
    begun, ended = [], []

    class Late(SpanProcessor):
        def on_start(self, span, parent_context=None):
            begun.append(span.name)

        def on_end(self, span):
            ended.append(span.name)

    traces = Traces()
    async with stage(database_url, both, observers=[traces.observer()]) as on:
        await (await on.client.start(both, 4)).result(timeout=PATIENCE)
        traces.provider.add_span_processor(Late())
        await (await on.client.start(both, 4)).result(timeout=PATIENCE)
    assert begun.count("workflow.step") == ended.count("workflow.step") == 2
    assert len(traces.named("workflow.step")) == 4


async def test_a_processor_that_raises_loses_no_span_of_another_step(database_url):
    seen = []

    class Choosy(SpanProcessor):
        def on_end(self, span):
            seen.append(span.name)
            if len(seen) == 1:
                raise RuntimeError("not this one")

    @workflow
    async def body() -> None:
        await asyncio.gather(*(double(number) for number in range(3)))

    traces = Traces()
    traces.provider.add_span_processor(Choosy())
    async with stage(database_url, body, observers=[traces.observer()]) as on:
        await (await on.client.start(body)).result(timeout=PATIENCE)
    assert sorted(seen) == ["workflow.run", "workflow.step", "workflow.step", "workflow.step"]


async def test_a_trace_that_nobody_can_read_is_none(database_url):
    traces = Traces()

    class Odd(Tracing):
        def caller_trace(self):
            return "nonsense"

    async with AsyncClient(database_url, observers=[Odd(traces.provider)]) as client, Worker(client, workflows=[both]):
        assert await (await client.start(both, 4)).result(timeout=PATIENCE) == 4
    assert traces.one("workflow.run").parent is None


def test_a_provider_that_is_not_the_sdk_s_is_refused():
    with pytest.raises(DefinitionError, match="SDK"):
        Tracing(trace.NoOpTracerProvider())


WITHOUT = """
import asyncio, logging, holdfast
from holdfast.observe import Tracing
logging.basicConfig(format="%(message)s")
@holdfast.workflow
async def body() -> int:
    return 1
async def main():
    async with holdfast.AsyncClient("sqlite:///:memory:", observers=[Tracing()]) as client:
        async with holdfast.Worker(client, workflows=[body]):
            print(await (await client.start(body)).result(timeout=60))
asyncio.run(main())
"""


def test_tracing_without_a_provider_says_so_and_goes_on():
    ran = subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert ran.stdout == "1\n", ran.stderr
    assert "set_tracer_provider" in ran.stderr
