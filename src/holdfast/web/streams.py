"""A run's streams and changes of status, as server-sent events that resume by Last-Event-ID.

The id of an event says how far each stream was read. The server keeps nothing, so any server can go on from it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Header, Query

from holdfast.client import AsyncRun, StreamItem
from holdfast.codec import Shown, plain
from holdfast.errors import HoldfastError
from holdfast.model import is_name

from .problems import Refused, declared
from .service import CallerDep, FoundRun, ServiceDep, take_slot
from .sse import MEDIA_TYPE, EventStream, event, merged

streams = APIRouter(tags=["streams"])
_EVENT = {
    "type": "object",
    "description": "One event, by the fields of its lines.",
    "properties": {
        "event": {"type": "string"},
        "id": {"type": "string", "description": "What to come back with, as Last-Event-ID."},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}
STREAMED: dict[int | str, dict[str, Any]] = {
    200: {"description": "Events, as they come", "content": {MEDIA_TYPE: {"schema": _EVENT}}}
}
_LARGEST = 2**53


@streams.get(
    "/{run_id}/stream",
    status_code=200,
    response_class=EventStream,
    responses={**declared(404), **STREAMED},
    summary="Follow a run's streams and its status",
)
async def follow_run(
    run: FoundRun,
    service: ServiceDep,
    caller: CallerDep,
    name: Annotated[list[str] | None, Query(description="A stream of the run; may be repeated.")] = None,
    last_event_id: Annotated[str | None, Header(description="Continue after this event.")] = None,
) -> EventStream:
    """Events: `status` whenever the status changes, `item` for each item of the named streams, and `end` when the run,
    or the last run that continues it, has ended; then the response ends. On `error`, connect again."""
    names = list(dict.fromkeys(name or []))
    if len(names) > 20 or not all(is_name(one, 200) for one in names):
        raise Refused(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "bad-name",
            "expected at most 20 names of 1 to 200 characters, without a NUL",
            field=("query", "name"),
        )
    offsets = _offsets(last_event_id, names)
    take_slot(service)
    return EventStream(_events(run, offsets, caller.sees_payloads), service.slots.give, service.ending)


async def _events(run: AsyncRun[Any], offsets: dict[str, int], sees: bool) -> AsyncGenerator[bytes, None]:
    sources = [_items(run, name, after) for name, after in offsets.items()]
    try:
        async for found in merged(_changes(run), *sources):
            if isinstance(found, bytes):
                yield found
                continue
            name, item = found
            # An event's id holds the names and offsets of all streams. An item moves it on only when it is its turn to
            # be sent, so whoever comes back with an id has seen everything that it says.
            offsets[name] = item.offset
            yield _item(name, item, offsets, sees)
        # Not read again: by its id, a run that continued would only say so.
        yield event("end", {"id": run.id, "status": run.status.value})
    except HoldfastError as error:
        yield event("error", {"type": type(error).__name__, "detail": plain(str(error)) if sees else None})


async def _changes(run: AsyncRun[Any]) -> AsyncIterator[bytes | tuple[str, StreamItem[Any]]]:
    async for status in run.changes():
        yield event("status", {"id": run.record.id if run.record else run.id, "status": status.value})


async def _items(run: AsyncRun[Any], name: str, after: int) -> AsyncIterator[bytes | tuple[str, StreamItem[Any]]]:
    async for item in run.stream(name, after=after, type=Shown):
        yield name, item


def _item(name: str, item: StreamItem[Any], offsets: Mapping[str, int], sees: bool) -> bytes:
    told = {
        "stream": name,
        "offset": item.offset,
        "value": plain(item.value) if sees else None,
        "hidden": not sees,
        "step": item.step,
        "attempt": item.attempt,
        "at": item.at.isoformat(),
        "reset": item.reset,
        "origin_id": item.origin_id,
    }
    return event("item", told, id=urlencode(offsets))


def _offsets(last_event_id: str | None, names: list[str]) -> dict[str, int]:
    """The offset behind which each stream goes on."""
    offsets = dict.fromkeys(names, 0)
    if not last_event_id:
        return offsets
    try:
        pairs = parse_qsl(last_event_id, strict_parsing=True, max_num_fields=20)
    except ValueError:
        pairs = [("", "")]
    for name, text in pairs:
        if not (text.isascii() and text.isdecimal() and len(text) <= 16 and int(text) <= _LARGEST and name in offsets):
            raise Refused(
                HTTPStatus.BAD_REQUEST,
                "bad-cursor",
                "it is no event's id of these streams; leave it out to begin anew",
                field=("header", "last-event-id"),
            )
        offsets[name] = int(text)
    return offsets
