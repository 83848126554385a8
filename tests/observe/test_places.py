"""Where a run stands in a trace, and whether it is sampled: as the provider's sampler would have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    DEFAULT_OFF,
    DEFAULT_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes

from holdfast.define import RunInfo
from holdfast.observe.places import Places

STOCK = (ALWAYS_ON, ALWAYS_OFF, DEFAULT_ON, DEFAULT_OFF, TraceIdRatioBased(0.3), ParentBased(TraceIdRatioBased(0.7)))
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"


class Asked(Sampler):
    """Remembers what it was asked, and keeps what has an even id."""

    def __init__(self) -> None:
        self.about: list[tuple[str, Attributes]] = []

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        self.about.append((name, attributes))
        kept = Decision.DROP if trace_id % 2 else Decision.RECORD_AND_SAMPLE
        return SamplingResult(kept, trace_state=TraceState([("asked", "yes")]))

    def get_description(self) -> str:
        return "asked"


class Reversed(TraceIdRatioBased):
    """Derived from one of the SDK's own, and decides otherwise."""

    def should_sample(self, parent_context: Context | None, trace_id: int, *about: Any, **more: Any) -> SamplingResult:
        kept = super().should_sample(parent_context, trace_id, *about, **more).decision is Decision.RECORD_AND_SAMPLE
        return SamplingResult(Decision.DROP if kept else Decision.RECORD_AND_SAMPLE)


def run_of(number: int) -> RunInfo:
    return RunInfo(
        id=f"run-{number}", workflow="orders", version="3", key=None, tags={}, priority=0, chain_id="", origin_id="",
        parent_id=None, created_at=number, started_at=number, deadline_at=None,
    )  # fmt: skip  # a name a line would be a page


@pytest.mark.parametrize(
    "sampler", [*STOCK, Reversed(0.4), ParentBased(Reversed(0.4))], ids=lambda one: one.get_description()[:40]
)
@pytest.mark.parametrize("caller", [None, f"{CALLER}00", f"{CALLER}01"])
def test_a_run_is_sampled_if_the_sampler_would_keep_it(sampler, caller):
    places = Places(sampler)
    asking = Places(sampler)
    asking._bound = None
    for number in range(200):
        found, expected = (one.place(run_of(number), number, caller) for one in (places, asking))
        assert (found.is_sampled, found.text, found.parent) == (expected.is_sampled, expected.text, expected.parent)


def test_a_ratio_keeps_about_as_many_as_it_says():
    places = Places(ParentBased(TraceIdRatioBased(0.25)))
    kept = sum(places.place(run_of(number), number, None).is_sampled for number in range(2_000))
    assert 400 < kept < 600


def test_a_sampler_of_somebody_else_s_is_asked_about_the_run_and_its_state_is_kept():
    sampler = Asked()
    place = Places(sampler).place(run_of(1), 1, None)
    assert sampler.about == [("workflow.run", {"workflow.name": "orders", "workflow.version": "3", "run_id": "run-1"})]
    assert place.is_sampled == (place.context.trace_id % 2 == 0)
    assert place.text.endswith(" asked=yes")


def test_what_a_step_sees_of_a_run_that_is_not_sampled_is_the_run_s_own_context():
    place = Places(ALWAYS_OFF).place(run_of(1), 1, None)
    context = place.get_span_context()
    sampled = Places(ALWAYS_ON).place(run_of(1), 1, None).context
    assert (context.trace_id, context.span_id) == (sampled.trace_id, sampled.span_id)
    assert context.is_valid
    assert not context.trace_flags.sampled
    assert not place.is_recording()
    assert context is place.get_span_context()
