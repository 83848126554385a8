"""Tracing: who hears of spans, by whichever provider of the SDK they were given."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ConcurrentMultiSpanProcessor, SpanProcessor, TracerProvider
from opentelemetry.trace import StatusCode

from holdfast import DefinitionError, workflow
from holdfast.observe import Tracing
from tests.observe.observed import (
    PATIENCE,
    both,
    double,
)
from tests.observe.watchers import Traces
from tests.worker.stage import stage


async def test_processors_see_spans_begin(database_url):
    begun = []

    class Stamping(SpanProcessor):
        def on_start(self, span, parent_context=None):
            span.set_attribute("team", "shipping")
            begun.append((span.name, span.attributes["workflow.name"]))

    traces = Traces()
    traces.provider.add_span_processor(Stamping())
    async with stage(database_url, both, observers=[traces.observer()]) as on:
        await (await on.client.start(both, 4)).result(timeout=PATIENCE)
    assert sorted(begun) == [("workflow.run", "both"), *[("workflow.step", "both")] * 2]
    assert len(traces.named("workflow.step", team="shipping")) == 2


async def test_the_status_that_a_processor_gives_to_the_span_of_a_run_stays(database_url):
    class Judging(SpanProcessor):
        def on_start(self, span, parent_context=None):
            if span.name == "workflow.run":
                span.set_status(StatusCode.OK)

    @workflow
    async def failing() -> None:
        raise ValueError("as it is meant to")

    traces = Traces()
    traces.provider.add_span_processor(Judging())
    async with stage(database_url, failing, observers=[traces.observer()]) as on:
        await (await on.client.start(failing)).wait(timeout=PATIENCE)
    assert traces.one("workflow.run").status.status_code is StatusCode.OK


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


def with_one_of_its_own(keeps: SpanProcessor) -> TracerProvider:
    """A provider whose spans all go to a processor of the user's own."""

    class Passing(SpanProcessor):
        def on_start(self, span, parent_context=None):
            keeps.on_start(span, parent_context)

        def on_end(self, span):
            keeps.on_end(span)

    return TracerProvider(active_span_processor=Passing(), shutdown_on_exit=False)


def with_many_at_once(keeps: SpanProcessor) -> TracerProvider:
    """A provider that tells its processors from threads."""
    provider = TracerProvider(active_span_processor=ConcurrentMultiSpanProcessor(), shutdown_on_exit=False)
    provider.add_span_processor(keeps)
    return provider


@pytest.mark.parametrize("made", [with_one_of_its_own, with_many_at_once])
async def test_a_provider_that_tells_its_processors_in_another_way_is_asked_to_do_so(database_url, made):
    begun, ended = [], []

    class Keeping(SpanProcessor):
        def on_start(self, span, parent_context=None):
            begun.append(span.name)

        def on_end(self, span):
            ended.append(span.name)

    async with stage(database_url, both, observers=[Tracing(made(Keeping()))]) as on:
        await (await on.client.start(both, 4)).result(timeout=PATIENCE)
    assert sorted(begun) == sorted(ended) == ["workflow.run", "workflow.step", "workflow.step"]


KEPT_ELSEWHERE = """
import asyncio, opentelemetry.context
from opentelemetry import trace
from opentelemetry.context.contextvars_context import ContextVarsRuntimeContext
from opentelemetry.sdk.trace import TracerProvider
attached = []
class Elsewhere(ContextVarsRuntimeContext):
    def attach(self, context):
        attached.append(context)
        return super().attach(context)
opentelemetry.context._RUNTIME_CONTEXT = Elsewhere()
import holdfast
from holdfast.observe import Tracing
@holdfast.step
async def look() -> bool:
    return trace.get_current_span().get_span_context().is_valid
@holdfast.workflow
async def body() -> bool:
    return await look()
async def main():
    async with holdfast.AsyncClient("sqlite:///:memory:", observers=[Tracing(TracerProvider())]) as client:
        async with holdfast.Worker(client, workflows=[body]):
            print(await (await client.start(body)).result(timeout=60), len(attached))
asyncio.run(main())
"""


def test_a_context_that_something_else_keeps_is_given_to_that():
    ran = subprocess.run([sys.executable, "-c", KEPT_ELSEWHERE], capture_output=True, text=True, check=False)
    assert ran.stdout == "True 1\n", ran.stderr
