"""/v1/live: changes of runs, as server-sent events that resume by Last-Event-ID."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Header, Query

from holdfast.codec import plain
from holdfast.errors import HoldfastError

from .live import LiveRuns
from .problems import declared
from .service import OfWorkflow, ServiceDep, take_slot
from .sse import EventStream, event
from .streams import STREAMED

changes = APIRouter(tags=["streams"])


@changes.get(
    "/v1/live",
    status_code=200,
    response_class=EventStream,
    responses={**declared(), **STREAMED},
    summary="Follow the changes of runs",
)
async def follow_runs(
    service: ServiceDep,
    workflow: Annotated[OfWorkflow | None, Query(description="Only runs of this workflow.")] = None,
    last_event_id: Annotated[str | None, Header(description="Continue after this event.")] = None,
) -> EventStream:
    """Events: `ready` comes first; then `run` with a run that is new or has changed, `deleted` with an id, and `reset`
    when what was missed is no longer known: then list the runs again. Several changes of a run within a second may be
    one event. New runs and the newest live ones are looked at each second, older ones in turn."""
    take_slot(service)
    return EventStream(_events(service.live, workflow, last_event_id), service.slots.give, service.ending)


async def _events(live: LiveRuns, workflow: str | None, last_id: str | None) -> AsyncGenerator[bytes, None]:
    try:
        async for change in live.follow(last_id):
            id = live.id_of(change.number)
            if change.kind in ("ready", "reset"):
                yield event(change.kind, {}, id=id)
            elif workflow is not None and change.workflow != workflow:
                continue
            elif change.run is None:
                yield event("deleted", {"id": change.run_id}, id=id)
            else:
                yield event("run", change.run.model_dump(mode="json"), id=id)
    except HoldfastError as error:
        yield event("error", {"type": type(error).__name__, "detail": plain(str(error))})
