"""What every route may use: the client, the caller, the run that the path names, and slots for those who stay."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Any, TypeAlias, get_args, get_origin

from fastapi import Depends, Path, Query
from fastapi.dependencies.models import Dependant
from pydantic import AfterValidator
from starlette.requests import Request

from holdfast.client import AsyncClient, AsyncRun
from holdfast.errors import ClientClosed, RunNotFound, StoreError
from holdfast.model import is_name, is_text

from .access import Caller
from .edge import with_slashes
from .limits import Slots
from .live import LiveRuns
from .locks import LoopLock
from .problems import RETRY_AFTER, Refused
from .sse import Ending

_PATIENCE = 5.0
_FRESH = 1.0
"""Seconds for which the answer to "does the database answer?" is reused."""
Metrics: TypeAlias = Callable[[], str | bytes | tuple[bytes, str]]
"""Returns the text of /metrics, with its content type if that is not Prometheus's usual one."""


class Readiness:
    """Whether the database answers. It is asked at most once a second, for anybody may ask us: no key is needed."""

    def __init__(self, client: AsyncClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._lock = LoopLock()
        self._told_at = -math.inf
        self._reason: str | None = None

    async def reason(self) -> str | None:
        """Why the database does not answer; None if it does."""
        async with self._lock.here():
            if self._clock() - self._told_at >= _FRESH:
                self._reason = await self._ask()
                self._told_at = self._clock()
            return self._reason

    async def _ask(self) -> str | None:
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._client.workers()
        except TimeoutError:
            return f"the database has not answered in {_PATIENCE:g} s"
        except (StoreError, ClientClosed):
            # The caller may have no key, so don't even tell the database's address.
            return "the database can't be reached"
        return None


@dataclass(frozen=True, slots=True)
class Service:
    """What the application was built with."""

    client: AsyncClient
    slots: Slots
    live: LiveRuns
    readiness: Readiness
    metrics: Metrics | None
    ending: Ending = field(default_factory=Ending)
    """Set by a server that is about to shut down: streams and waits for results end, so that their callers connect to
    another server."""


def _service(request: Request) -> Service:
    found: Service = request.app.state.holdfast
    return found


def _caller(request: Request) -> Caller:
    found: Caller = request.scope["holdfast.caller"]
    return found


# Checked here, where the field is known: the client would refuse it as well, but could not name the field.
def _text(given: str) -> str:
    text = with_slashes(given)
    if not is_text(text):
        raise ValueError("expected text without a NUL")
    return text


def _name(given: str) -> str:
    text = with_slashes(given)
    if not is_name(text, 200):
        raise ValueError("expected a name of 1 to 200 characters, without a NUL")
    return text


ServiceDep: TypeAlias = Annotated[Service, Depends(_service)]
CallerDep: TypeAlias = Annotated[Caller, Depends(_caller)]
RunId: TypeAlias = Annotated[str, Path(description="The run's id."), AfterValidator(_text)]
WorkflowName: TypeAlias = Annotated[str, Path(description="The workflow's name."), AfterValidator(_name)]
OfWorkflow: TypeAlias = Annotated[str, AfterValidator(_name)]
"""The name of a workflow to which a listing or a live stream is narrowed."""
SignalName: TypeAlias = Annotated[str, Path(description="The signal's name."), AfterValidator(_name)]
EventName: TypeAlias = Annotated[str, Path(description="The event's name."), AfterValidator(_name)]
ValueName: TypeAlias = Annotated[str, Path(description="The value's name."), AfterValidator(_name)]
Cursor: TypeAlias = Annotated[
    str | None,
    # The pattern is only documentation: the listing itself refuses what is no cursor.
    Query(description="The `next` of an earlier page.", json_schema_extra={"pattern": "^[A-Za-z0-9_=-]+$"}),
]
Token: TypeAlias = Annotated[str, Path(description="The hook's token."), AfterValidator(_text)]


async def named_workflow(workflow: WorkflowName) -> str:
    """A dependency that makes OpenAPI list the workflow's name as a parameter of these paths."""
    return workflow


async def found_run(request: Request, run_id: RunId, service: ServiceDep) -> AsyncRun[Any]:
    """The run that the path names. If the path also names a workflow, the run must be of it."""
    run = await service.client.get_run(run_id)
    given = request.path_params.get("workflow")
    if given is not None and run.workflow != with_slashes(given):
        raise RunNotFound(f"the workflow {with_slashes(given)!r} has no run {run_id!r}; look for it below /v1/runs")
    return run


FoundRun: TypeAlias = Annotated[AsyncRun[Any], Depends(found_run)]


def strict(prefix: str | None = None) -> Any:
    """A dependency that refuses unknown query parameters, and repeated ones that are no lists.

    A misspelt filter or stream name that was ignored would select everything, or nothing. Parameters that begin with
    `prefix` are allowed.
    """

    async def refuse_unknown(request: Request) -> None:
        if not request.query_params:
            return
        known = _parameters(request.scope["route"].dependant)
        for name in request.query_params:
            if prefix and name.startswith(prefix):
                continue
            if name not in known:
                raise Refused(
                    HTTPStatus.UNPROCESSABLE_ENTITY,
                    "unknown-parameter",
                    f"there is no query parameter {name!r}; expected {', '.join(known) or 'none'}",
                    field=("query", name),
                )
            if not known[name] and len(request.query_params.getlist(name)) > 1:
                raise Refused(
                    HTTPStatus.UNPROCESSABLE_ENTITY,
                    "repeated-parameter",
                    f"the query parameter {name!r} is given more than once; expected one value",
                    field=("query", name),
                )

    return Depends(refuse_unknown)


def _parameters(dependant: Dependant) -> dict[str, bool]:
    """A route's query parameters in order, those of its dependencies included, and whether each may be repeated."""
    known = {field.alias: _is_list(field.field_info.annotation) for field in dependant.query_params}
    for one in dependant.dependencies:
        known |= _parameters(one)
    return known


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is list or any(map(_is_list, get_args(annotation)))


async def while_connected(request: Request, ending: Ending, work: Coroutine[Any, Any, object]) -> None:
    """Do the work, but stop when the caller disconnects: nobody else would free its slot. Raises TimeoutError when the
    server shuts down."""
    tasks: list[asyncio.Task[object]] = [
        asyncio.create_task(work),
        asyncio.create_task(_disconnected(request)),
        asyncio.create_task(ending.wait()),
    ]
    doing, going, _ = tasks
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            doing.result()
        elif not going.done():
            raise TimeoutError
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def take_slot(service: Service) -> None:
    """Take a slot for a request that stays connected, or refuse the request."""
    if not service.slots.take():
        raise Refused(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "too-many-connected",
            f"{service.slots.most} streams and waits are open already; try again later",
            headers={"retry-after": RETRY_AFTER},
        )
