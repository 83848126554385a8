"""A caller that says in which trace it is, as W3C has it, finds its runs in that trace."""

from __future__ import annotations

import pytest
from opentelemetry.trace import SpanKind

from holdfast.web import api
from tests.observe.watchers import Traces
from tests.web.stage import approval, checkout, reached
from tests.worker.stage import stage

TRACE_ID, SPAN_ID = "a" * 32, "b" * 16
PARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"
START = "/v1/workflows/checkout/runs"


async def started(database_url: str, **headers: str) -> tuple[Traces, str]:
    """The spans of a run that a caller with these headers has started."""
    traces = Traces()
    async with stage(database_url, checkout, client={"observers": [traces.observer()]}) as on:
        async with reached(api(on.client)) as http:
            answer = await http.post(START, json={"input": ["4711"]}, headers=headers)
        run = await on.client.get_run(answer.json()["id"])
        await run.result("60s")
    return traces, run.id


async def test_a_run_is_in_the_trace_of_whoever_started_it_over_http(database_url):
    traces, _ = await started(database_url, traceparent=PARENT, tracestate="vendor=x")
    whole = traces.one("workflow.run")
    assert f"{whole.parent.span_id:016x}" == SPAN_ID
    assert f"{whole.context.trace_id:032x}" == TRACE_ID
    assert whole.parent.trace_state["vendor"] == "x"


async def test_an_api_without_a_client_of_its_own_takes_the_settings_for_whether_it_is_traced(
    database_url, monkeypatch
):
    async with stage(database_url, checkout) as on, reached(api(on.client.url)) as http:
        monkeypatch.setenv("HOLDFAST_TRACING", "1")
        answer = await http.post(START, json={"input": ["4711"]}, headers={"traceparent": PARENT})
        run = await on.client.get_run(answer.json()["id"])
        assert run.record.trace == PARENT


async def test_a_message_is_linked_with_whoever_sent_it_over_http(database_url):
    traces = Traces()
    async with stage(database_url, approval, client={"observers": [traces.observer()]}) as on:
        run = await on.client.start(approval, "ann")
        await on.until_waiting(run)
        async with reached(api(on.client)) as http:
            await http.post(f"/v1/runs/{run.id}/signals/answer", json="yes", headers={"traceparent": PARENT})
        await run.result("60s")
    by_kind = {span.kind: span for span in traces.named("workflow.signal")}
    assert f"{by_kind[SpanKind.PRODUCER].parent.span_id:016x}" == SPAN_ID
    assert [f"{link.context.span_id:016x}" for link in by_kind[SpanKind.CONSUMER].links] == [SPAN_ID]


@pytest.mark.parametrize(
    "parent", ["", "nonsense", f"00-{'0' * 32}-{SPAN_ID}-01", f"ff-{TRACE_ID}-{SPAN_ID}-01", PARENT[:-3]]
)
async def test_an_invalid_trace_header_is_ignored(database_url, parent):
    traces, _ = await started(database_url, traceparent=parent)
    assert traces.one("workflow.run").parent is None


async def test_a_server_that_is_traced_by_something_else_is_in_its_own_span(database_url):
    traces = Traces()
    async with stage(database_url, checkout, client={"observers": [traces.observer()]}) as on:
        async with reached(api(on.client)) as http:
            with traces.tracer.start_as_current_span("request") as request:
                answer = await http.post(START, json={"input": ["4711"]}, headers={"traceparent": PARENT})
        await (await on.client.get_run(answer.json()["id"])).result("60s")
    assert traces.one("workflow.run").parent.span_id == request.get_span_context().span_id
