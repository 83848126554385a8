"""Runs: start, list, read, delete, wait for a result. Most routes exist below a workflow and below /v1/runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Query, Response
from pydantic import StringConstraints
from starlette.requests import Request

from holdfast.define import StartOptions
from holdfast.errors import BadCursor
from holdfast.model import NOT_GIVEN, microseconds

from . import showing
from .filters import filter_of
from .problems import Refused, declared, too_large
from .service import (
    CallerDep,
    Cursor,
    FoundRun,
    OfWorkflow,
    ServiceDep,
    WorkflowName,
    take_slot,
    while_connected,
)
from .shapes import (
    Length,
    Moment,
    Outcome,
    RunPage,
    RunShown,
    RunStarted,
    StartRun,
    Status,
    expected,
    moment_or_duration,
)

LONGEST_WAIT = 60
"""How many seconds a request may wait for a result."""

starting = APIRouter(tags=["runs"])
listing = APIRouter(tags=["runs"])
one = APIRouter(tags=["runs"])

Statuses = Annotated[list[Status] | None, Query(description="Only runs with this status; may be repeated.")]
Key = Annotated[str | None, Query(description="Only the run with this key.")]
Tag = Annotated[str, StringConstraints(pattern="^[^=]+=", max_length=1000), expected("name=value")]
Tags = Annotated[list[Tag] | None, Query(description="Only runs with this tag, as name=value; may be repeated.")]
Parent = Annotated[str | None, Query(description="Only children of this run.")]
Since = Annotated[Moment | None, Query(description="Created at this time or later, as 2026-01-31T12:00:00Z.")]
Until = Annotated[Moment | None, Query(description="Created before this time.")]
Limit = Annotated[int, Query(ge=1, le=1000)]


@starting.post(
    "/v1/workflows/{workflow}/runs",
    status_code=201,
    responses={**declared(404, 409), 200: {"model": RunStarted, "description": "The run existed already"}},
    summary="Start a run",
)
async def start_run(
    workflow: WorkflowName, body: StartRun, service: ServiceDep, caller: CallerDep, response: Response
) -> RunStarted:
    """Start a run of a workflow that workers have registered. With a `key` or an `id` it is safe to repeat."""
    options = StartOptions(
        id=body.id,
        key=body.key,
        on_conflict=body.on_conflict,
        delay=moment_or_duration(body.delay),
        deadline=moment_or_duration(body.deadline),
        priority=body.priority,
        tags=body.tags,
        queue=body.queue,
        # Left out, the workflow's own retention applies; null means for ever.
        retention=body.retention if "retention" in body.model_fields_set else NOT_GIVEN,
    )
    args, kwargs = (body.input, {}) if isinstance(body.input, list) else ([], body.input)
    with too_large("input"):
        run = await service.client.start_call(workflow, args, kwargs, version=body.version, options=options)
    caller.run_id = run.id
    created = run.created
    await run.refresh()
    response.status_code = HTTPStatus.CREATED if created else HTTPStatus.OK
    return showing.started(run)


async def _paged(
    request: Request,
    service: ServiceDep,
    caller: CallerDep,
    status: Statuses = None,
    key: Key = None,
    tag: Tags = None,
    parent: Parent = None,
    since: Since = None,
    until: Until = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Callable[[str | None], Awaitable[RunPage]]:
    """Makes a page of runs for the filters in the query, of whichever workflow."""

    async def page(workflow: str | None) -> RunPage:
        where = filter_of(
            workflow=workflow, status=[*(status or [])], key=key, tag=tag or [], parent=parent, since=since,
            until=until, query=request.query_params.multi_items(), caller=caller,
        )  # fmt: skip  # one line a group reads better here
        try:
            found: Any = await service.client.runs(where).page(cursor=cursor, limit=limit)
        except BadCursor as error:
            raise Refused(HTTPStatus.BAD_REQUEST, "bad-cursor", str(error), field=("query", "cursor")) from None
        return RunPage(runs=[showing.summary(run) for run in found.items], next=found.next)

    return page


PageOf: TypeAlias = Annotated[Callable[[str | None], Awaitable[RunPage]], Depends(_paged)]


@listing.get("/v1/workflows/{workflow}/runs", responses=declared(), summary="List a workflow's runs")
async def list_runs_of_workflow(workflow: WorkflowName, page: PageOf) -> RunPage:
    """Its runs, newest first. `input.order.card=4711` selects runs whose argument `order` has that `card`: the value is
    read as JSON if it is valid JSON, else as text. Runs that start meanwhile don't disturb a cursor. A page may be
    short or even empty and still have a `next`: go on until that is null."""
    return await page(workflow)


@listing.get("/v1/runs", responses=declared(), summary="List runs")
async def list_runs(
    page: PageOf, workflow: Annotated[OfWorkflow | None, Query(description="Only runs of this workflow.")] = None
) -> RunPage:
    """All runs, newest first. Filters and cursors work as below a workflow."""
    return await page(workflow)


@one.get("/{run_id}", responses=declared(404), summary="Read a run")
async def get_run(run: FoundRun, service: ServiceDep, caller: CallerDep) -> RunShown:
    """A run with its input and, if it has ended, its result or error."""
    return await showing.shown(service.client, run, caller.sees_payloads)


@one.delete(
    "/{run_id}", status_code=204, response_class=Response, responses=declared(404, 409), summary="Delete an ended run"
)
async def delete_run(run: FoundRun, service: ServiceDep) -> Response:
    """Remove an ended run and all that belongs to it. A live run is refused: cancel it first."""
    if not run.status.is_final:
        raise Refused(
            HTTPStatus.CONFLICT,
            "run-not-ended",
            f"run {run.id} is {run.status}: only an ended one can be deleted; cancel it first",
        )
    await service.client.delete(run.id)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@one.get(
    "/{run_id}/result",
    responses={**declared(404), 202: {"model": Outcome, "description": "The run has not ended yet"}},
    summary="Wait for a run's result",
)
async def get_result(
    request: Request,
    run: FoundRun,
    service: ServiceDep,
    caller: CallerDep,
    response: Response,
    wait: Annotated[Length, Query(description="How long to wait for its end, at most 60s.")] = 0,
) -> Outcome:
    """How a run has ended: 200 when it has ended, in whichever way, and 202 while it has not. A run that continued as
    new has the result of the last run that continues it."""
    limit = microseconds(wait, what="wait")
    if limit > LONGEST_WAIT * 1_000_000:
        raise Refused(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "bad-wait",
            f"expected a duration of at most {LONGEST_WAIT}s; ask again for longer",
            field=("query", "wait"),
        )
    # First, ask how the run has ended: one that continued is over, and the last that continues it may be as well.
    found = await showing.outcome(service.client, run, caller.sees_payloads)
    if limit > 0 and not found.done:
        take_slot(service)
        try:
            await while_connected(request, service.ending, run.wait(limit / 1_000_000))
        except TimeoutError:
            await run.refresh()
        finally:
            service.slots.give()
        found = await showing.outcome(service.client, run, caller.sees_payloads)
    response.status_code = HTTPStatus.OK if found.done else HTTPStatus.ACCEPTED
    return found
