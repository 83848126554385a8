"""Signals, events and hooks. The body is the payload, any JSON. A repeated Idempotency-Key is delivered once."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Body, Header
from pydantic import StringConstraints

from .problems import declared, too_large
from .service import EventName, FoundRun, ServiceDep, SignalName, Token
from .shapes import Accepted

signals = APIRouter(tags=["messages"])
events = APIRouter(tags=["messages"])

Payload: TypeAlias = Annotated[Any, Body(description="Any JSON; an empty body means null.")]
MessageId: TypeAlias = Annotated[
    Annotated[str, StringConstraints(min_length=1, max_length=500)] | None,
    Header(alias="Idempotency-Key", description="A message with the same key is delivered once."),
]


@signals.post(
    "/{run_id}/signals/{signal}", status_code=202, responses=declared(404, 409), summary="Send a signal to a run"
)
async def send_signal(
    run: FoundRun, signal: SignalName, service: ServiceDep, payload: Payload = None, message_id: MessageId = None
) -> Accepted:
    """The signal waits in the run's inbox until the run takes it. If it does not fit what the run waits for, it is
    refused."""
    with too_large("payload"):
        await service.client.signal(run.id, signal, payload, message_id=message_id)
    return Accepted()


@events.post("/v1/events/{event}", status_code=202, responses=declared(), summary="Publish an event")
async def publish_event(
    event: EventName, service: ServiceDep, payload: Payload = None, message_id: MessageId = None
) -> Accepted:
    """Every run that waits for the event, now or later, may take it. It also starts each workflow declared with
    on_event for it."""
    with too_large("payload"):
        await service.client.publish(event, payload, message_id=message_id)
    return Accepted()


@events.post(
    "/v1/hooks/{token}", status_code=202, responses=declared(404, 409, 410), summary="Resume the run that made a hook"
)
async def resume_hook(
    token: Token, service: ServiceDep, payload: Payload = None, message_id: MessageId = None
) -> Accepted:
    """A hook can be resumed once. A payload that does not fit is refused, and the hook stays open."""
    with too_large("payload"):
        await service.client.resume_hook(token, payload, message_id=message_id)
    return Accepted()
