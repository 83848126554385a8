"""The REST application: routers, edge, error handlers and an accurate OpenAPI description."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import cache
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from holdfast.client import AsyncClient
from holdfast.errors import DefinitionError, HoldfastError
from holdfast.observe import Prometheus, Tracing, observers_of
from holdfast.settings import checked, resolve

from . import audit as auditing
from .access import ApiKey, Keys
from .changes import changes
from .edge import OPEN, Edge, Rules
from .filters import INPUT
from .fleet import fleet, health
from .limits import Buckets, Slots
from .live import LiveRuns
from .managing import managing, reading
from .messages import events, signals
from .problems import BELOW_WORKFLOW, MEDIA_TYPE, Refused, handle
from .reference import POLICY, page
from .runs import listing, one, starting
from .service import Metrics, Readiness, Service, named_workflow, strict
from .streams import streams

_PREFIXES = ("/v1/runs", "/v1/workflows/{workflow}/runs")
_ABOUT = """Start, watch and manage durable runs. Every error is an `application/problem+json`, and `errors` names the
fields that are to blame. Every answer has an `X-Request-Id`, which is the caller's own if it sent one."""
_STRICT, _STRICT_BUT_INPUT = strict(), strict(INPUT)


def build(
    client: AsyncClient | str | None,
    *,
    keys: Iterable[ApiKey | str],
    allow_remote: bool,
    open_hooks: bool,
    cors: Iterable[str],
    max_body: int,
    rate: float | None,
    streams: int,
    audit: Callable[[auditing.AuditRecord], None] | None,
    metrics: Metrics | None,
) -> FastAPI:
    """The application; see `holdfast.web.api`."""
    if isinstance(max_body, bool) or not isinstance(max_body, int) or max_body < 1:
        raise DefinitionError(f"max_body={max_body!r}: expected the largest body in bytes")
    if isinstance(keys, str) or isinstance(cors, str):
        raise DefinitionError("keys= and cors= are lists: put a single one into brackets")
    for name, given in (("allow_remote", allow_remote), ("open_hooks", open_hooks)):
        if not isinstance(given, bool):
            # The text "false" would be true, and open the API to everybody.
            raise DefinitionError(f"{name}={given!r}: expected True or False")
    own = client if isinstance(client, AsyncClient) else AsyncClient(client)
    origins = tuple(cors)
    if origins:
        checked({"cors": origins}, lambda key: f"{key}=")
    rules = Rules(
        keys=Keys(keys),
        allow_remote=allow_remote,
        open_hooks=open_hooks,
        origins=origins,
        max_body=max_body,
        buckets=None if rate is None else Buckets(rate),
        audit=audit or auditing.write,
        within=_within(own),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        if own is not client:
            await own.close()

    app = FastAPI(
        title="Holdfast",
        description=_ABOUT,
        version="1",
        lifespan=lifespan,
        openapi_url="/v1/openapi.json",
        # FastAPI's own pages load scripts from other servers; see reference.py.
        docs_url=None,
        redoc_url=None,
        # A path with one slash too many is a different path.
        redirect_slashes=False,
        generate_unique_id_function=_operation_id,
    )
    app.state.holdfast = Service(own, Slots(streams), LiveRuns(own), Readiness(own), metrics or _metrics_of(own))
    _add_routes(app)
    for kind in (HoldfastError, Refused, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle)
    app.add_middleware(Edge, rules=rules)
    if origins:
        # Outside the edge: a browser's preflight request carries no key.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=[
                *("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "X-Request-Id"),
                *("traceparent", "tracestate"),
            ],
            expose_headers=["X-Request-Id", "Retry-After"],
        )
    app.openapi = lambda: _openapi(app, bool(rules.keys))  # type: ignore[method-assign]  # FastAPI's own way
    return app


def _within(client: AsyncClient) -> Callable[[str], AbstractContextManager[object]]:
    """How to put a request into its caller's trace. It does nothing if the client is not traced: neither by an observer
    that it was given nor by its settings, which are read as late as the client reads them."""

    @cache
    def tracing() -> Tracing | None:
        given = client.observers
        observers = observers_of(resolve(), is_worker=False) if given is None else given
        return next((one for one in observers if isinstance(one, Tracing)), None)

    def within(trace: str) -> AbstractContextManager[object]:
        found = tracing()
        return nullcontext() if found is None else found.within(trace)

    return within


def _metrics_of(client: AsyncClient) -> Metrics | None:
    """Renders the metrics of the client's Prometheus observer, if it has one."""
    observers = client.observers or ()
    return next((one.render for one in observers if isinstance(one, Prometheus)), None)


def _add_routes(app: FastAPI) -> None:
    # FastAPI keeps every function that it is given for the life of the process, so none of these may refer to the app.
    app.add_api_route("/docs", _docs, include_in_schema=False)
    app.include_router(listing, dependencies=[_STRICT_BUT_INPUT])
    for router in (starting, events, changes, fleet):
        app.include_router(router, dependencies=[_STRICT])
    for prefix in _PREFIXES:
        named = [_STRICT, *([Depends(named_workflow)] if "{workflow}" in prefix else [])]
        for router in (one, reading, managing, signals, streams):
            app.include_router(router, prefix=prefix, dependencies=named)
    # Not strict: probes may add query parameters.
    app.include_router(health)


async def _docs(request: Request) -> Response:
    return Response(page(request.app.openapi()), media_type="text/html", headers={"content-security-policy": POLICY})


def _operation_id(route: APIRoute) -> str:
    """The function's name, with a suffix below a workflow: the same operation also exists below /v1/runs."""
    is_below = route.path_format.startswith(f"{_PREFIXES[1]}/")
    return f"{route.name}{BELOW_WORKFLOW}" if is_below else route.name


def _openapi(app: FastAPI, has_keys: bool) -> dict[str, Any]:
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        for path, operations in made["paths"].items():
            for operation in operations.values():
                _complete(path, operation)
        schemas = made["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        if has_keys:
            made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            made["security"] = [{"key": []}]
        app.openapi_schema = made
    return app.openapi_schema


def _complete(path: str, operation: dict[str, Any]) -> None:
    """Add what FastAPI can't know: the media type of errors, and which paths need no key. Take out null as a value of
    parameters: a URL or a header holds text, and an optional parameter is left out."""
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _without_null(parameter["schema"])
    for status, response in operation["responses"].items():
        if status >= "400":
            response["content"] = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    if path in OPEN:
        operation["security"] = []


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    branches = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if not branches:
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**branches[0], **rest} if len(branches) == 1 else {"anyOf": branches, **rest}
