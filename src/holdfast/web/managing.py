"""What can be done to a run and asked about it: cancel, retry, fork, pause, resume; journal, steps, values, explain."""

from __future__ import annotations

import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Body, Query, Response

from holdfast.client import AsyncRun, JournalEntry
from holdfast.codec import Shown, plain
from holdfast.errors import DefinitionError
from holdfast.model import NOT_GIVEN, RunStatus, is_name

from . import showing
from .problems import Refused, declared, too_large
from .service import CallerDep, Cursor, FoundRun, ServiceDep, ValueName
from .shapes import (
    Cancelled,
    CancelRun,
    Explained,
    ForkRun,
    JournalPage,
    RetryRun,
    RunStarted,
    RunSummary,
    StepList,
    StreamNamed,
    StreamPage,
    ValueNamed,
    ValuePage,
    ValueShown,
)

managing = APIRouter(tags=["managing"])
reading = APIRouter(tags=["runs"])
_MISSING: Any = object()
_CURSOR = re.compile(r"([0-9]{1,15})-([0-9]{1,15})")
NameLimit: TypeAlias = Annotated[int, Query(ge=1, le=1_000)]


@managing.post("/{run_id}/cancel", responses=declared(404), summary="Cancel a run")
async def cancel_run(run: FoundRun, service: ServiceDep, body: Annotated[CancelRun | None, Body()] = None) -> Cancelled:
    """Ask a run to end. It may clean up, unless `force` is given. Repeats change nothing."""
    asked = body or CancelRun(reason=None, force=False)
    told = await service.client.cancel(run.id, reason=asked.reason, force=asked.force)
    return Cancelled(id=told.run_id, sent=told.is_sent, was=told.status.value, skipped=list(told.skipped))


@managing.post(
    "/{run_id}/retry",
    status_code=201,
    responses={**declared(404, 409), 200: {"model": RunStarted, "description": "The run was retried already"}},
    summary="Retry a run",
)
async def retry_run(
    run: FoundRun,
    service: ServiceDep,
    caller: CallerDep,
    response: Response,
    body: Annotated[RetryRun | None, Body()] = None,
) -> RunStarted:
    """Go on where a failed or cancelled run stopped, as a new run. Steps with a result are not executed again."""
    again = await service.client.retry(run.id, id=None if body is None else body.id)
    caller.run_id, created = again.id, again.created
    response.status_code = HTTPStatus.CREATED if created else HTTPStatus.OK
    return showing.started(await again.refresh())


@managing.post("/{run_id}/fork", status_code=201, responses=declared(404), summary="Fork a run")
async def fork_run(
    run: FoundRun, service: ServiceDep, caller: CallerDep, body: Annotated[ForkRun | None, Body()] = None
) -> RunStarted:
    """A new run that shares this one's history up to a step. The original stays as it was."""
    # A body without fields that are set: `result: null` is a result, too.
    asked = body or ForkRun.model_validate({})
    if "result" in asked.model_fields_set and asked.at is None:
        raise Refused(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "bad-fork",
            "a result needs `at`, the key of the step whose result it is",
            field=("body", "at"),
        )
    given = asked.model_fields_set & {"input", "result"}
    try:
        # If both are given, nobody knows which one is too large.
        with too_large(given.pop() if len(given) == 1 else None):
            new = await service.client.fork(
                run.id,
                at=asked.at,
                input=NOT_GIVEN if asked.input is None else asked.input,
                result=asked.result if "result" in asked.model_fields_set else NOT_GIVEN,
            )
    except DefinitionError as error:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "bad-fork", str(error), field=("body", "at")) from None
    caller.run_id = new.id
    return showing.started(await new.refresh())


@managing.post("/{run_id}/pause", responses=declared(404, 409), summary="Pause a run")
async def pause_run(run: FoundRun, service: ServiceDep) -> RunSummary:
    """Take no further turn of the run until it is resumed. Repeats change nothing. If the run continued as new, the
    last run that continues it is paused and returned."""
    await service.client.pause(run.id)
    return await _last_of_chain(run)


@managing.post("/{run_id}/resume", responses=declared(404, 409), summary="Resume a run")
async def resume_run(run: FoundRun, service: ServiceDep) -> RunSummary:
    """Let a paused run go on. Repeats change nothing. If the run continued as new, the last run that continues it is
    resumed and returned."""
    await service.client.resume(run.id)
    return await _last_of_chain(run)


async def _last_of_chain(run: AsyncRun[Any]) -> RunSummary:
    """The run as it is now, or the last run of its chain."""
    changes = run.changes()
    try:
        while await anext(changes, None) is RunStatus.CONTINUED:
            pass
    finally:
        await changes.aclose()  # type: ignore[attr-defined]  # it is a generator
    return showing.summary(run)


@reading.get("/{run_id}/journal", responses=declared(404), summary="Read a run's journal")
async def get_journal(
    run: FoundRun,
    service: ServiceDep,
    caller: CallerDep,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1_000,
) -> JournalPage:
    """All that the run took in and asked for, in order. A machine's journal begins at its last checkpoint."""
    first = _place_of(cursor)
    placed = [one for one in _with_places(await service.client.journal(run.id)) if one[0] >= first]
    some = [showing.entry_shown(entry, caller.sees_payloads) for _, entry in placed[:limit]]
    following = "{}-{}".format(*placed[limit][0]) if limit < len(placed) else None
    return JournalPage(hidden=not caller.sees_payloads, entries=some, next=following)


@reading.get("/{run_id}/steps", responses=declared(404), summary="List a run's steps")
async def list_steps(run: FoundRun, service: ServiceDep, caller: CallerDep) -> StepList:
    """The state of each step, in the order in which the body asked for them."""
    entries = await service.client.journal(run.id)
    return StepList(hidden=not caller.sees_payloads, steps=showing.steps_shown(entries, caller.sees_payloads))


@reading.get("/{run_id}/explain", responses=declared(404), summary="Say why a run is not moving")
async def explain_run(run: FoundRun, service: ServiceDep, caller: CallerDep) -> Explained:
    """Why the run is where it is: in one word, in a sentence, and as data."""
    return showing.explained(await service.client.explain(run.id), caller.sees_payloads)


@reading.get("/{run_id}/values/{name}", responses=declared(404), summary="Read a value that a run has set")
async def get_value(run: FoundRun, name: ValueName, caller: CallerDep) -> ValueShown:
    """The value that the run has last set under this name."""
    value = await run.value(name, default=_MISSING, type=Shown)
    if value is _MISSING:
        raise Refused(
            HTTPStatus.NOT_FOUND, "value-not-found", f"run {run.id} has set no value {name!r}", field=("path", "name")
        )
    sees = caller.sees_payloads
    return ValueShown(name=name, hidden=not sees, value=plain(value) if sees else None)


@reading.get("/{run_id}/values", responses=declared(404), summary="List the values that a run has set")
async def list_values(run: FoundRun, cursor: Cursor = None, limit: NameLimit = 100) -> ValuePage:
    """The names of all values. Values belong to all runs of a chain."""
    found = await run.values(after=_name(cursor), limit=limit)
    shown = [ValueNamed(name=one.name, size=one.size, set_at=one.set_at) for one in found]
    return ValuePage(values=shown, next=_next_cursor(shown, limit))


@reading.get("/{run_id}/streams", responses=declared(404), summary="List a run's streams")
async def list_streams(run: FoundRun, cursor: Cursor = None, limit: NameLimit = 100) -> StreamPage:
    """The names of all streams that have items. `…/stream?name=` follows one."""
    found = await run.streams(after=_name(cursor), limit=limit)
    shown = [StreamNamed(name=one.name, last=one.last) for one in found]
    return StreamPage(streams=shown, next=_next_cursor(shown, limit))


def _next_cursor(shown: Sequence[ValueNamed | StreamNamed], limit: int) -> str | None:
    """The cursor behind these names; None if the page is not full, for then it is the last."""
    return urlsafe_b64encode(shown[-1].name.encode()).decode("ascii") if len(shown) == limit else None


def _name(cursor: str | None) -> str:
    if cursor is None:
        return ""
    try:
        name = b64decode(cursor.encode("ascii"), b"-_", validate=True).decode()
    except ValueError:
        name = ""
    if not is_name(name, 200):
        raise _bad_cursor()
    return name


def _with_places(entries: Iterable[JournalEntry]) -> Iterator[tuple[tuple[int, int], JournalEntry]]:
    """Each entry with its turn and its place in that turn. Not its number: checkpoints remove older turns."""
    last, place = -1, 0
    for entry in entries:
        place = place + 1 if entry.seq == last else 0
        last = entry.seq
        yield (last, place), entry


def _place_of(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return 0, 0
    if (found := _CURSOR.fullmatch(cursor)) is None:
        raise _bad_cursor()
    return int(found[1]), int(found[2])


def _bad_cursor() -> Refused:
    return Refused(
        HTTPStatus.BAD_REQUEST,
        "bad-cursor",
        "it is not a cursor; give the `next` of an earlier page, or nothing",
        field=("query", "cursor"),
    )
