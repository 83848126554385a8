"""Errors as problem+json (RFC 9457). One table maps Holdfast's errors to statuses.

A problem says what was wrong, names the field, and ends with what to do. It repeats at most a line of what the caller
sent. For an unforeseen error it gives only the id of the request, under which the error was logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, TypeAlias

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Scope

from holdfast import errors

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = "5"
"""Seconds after which to try again when the database was away."""
BELOW_WORKFLOW = "_of_workflow"
"""Suffix of the ids of operations below a workflow, which exist below /v1/runs as well."""
_LONGEST = 500
_logger = logging.getLogger("holdfast.web")

Status: TypeAlias = tuple[type[Exception], HTTPStatus, str | None]

TABLE: tuple[Status, ...] = (
    # The first that fits counts. A field is named if the error can only be about that one.
    (errors.RunNotFound, HTTPStatus.NOT_FOUND, None),
    (errors.UnknownWorkflow, HTTPStatus.NOT_FOUND, None),
    (errors.HookNotFound, HTTPStatus.NOT_FOUND, None),
    (errors.HookExpired, HTTPStatus.GONE, None),
    (errors.HookUsed, HTTPStatus.CONFLICT, None),
    (errors.KeyTaken, HTTPStatus.CONFLICT, None),
    (errors.RunEnded, HTTPStatus.CONFLICT, None),
    (errors.NotRetryable, HTTPStatus.CONFLICT, None),
    (errors.AlreadyCompensated, HTTPStatus.CONFLICT, None),
    (errors.PayloadTooLarge, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, None),
    (errors.BadArguments, HTTPStatus.UNPROCESSABLE_ENTITY, "input"),
    (errors.BadPayload, HTTPStatus.UNPROCESSABLE_ENTITY, "payload"),
    (errors.CodecError, HTTPStatus.UNPROCESSABLE_ENTITY, None),
    (errors.DefinitionError, HTTPStatus.UNPROCESSABLE_ENTITY, None),
    (errors.StoreError, HTTPStatus.SERVICE_UNAVAILABLE, None),
    (errors.ClientClosed, HTTPStatus.SERVICE_UNAVAILABLE, None),
)


class WrongField(BaseModel):
    """One thing in a request that is not acceptable."""

    place: str = Field(description="Where the field is: body, query, path or header.")
    field: str = Field(description="The field's name; dots separate the names of nested fields.")
    reason: str


class Problem(BaseModel):
    """Why a request was refused, in the form of RFC 9457."""

    type: str = Field(description="A URN for this kind of problem.")
    title: str
    status: int
    detail: str = Field(description="What was wrong, and what to do.")
    errors: list[WrongField] = Field(description="The fields that are to blame; may be empty.")
    request_id: str


class Refused(Exception):
    """A request is refused here, before the client is asked."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        detail: str,
        *,
        field: tuple[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.wrong = [] if field is None else [WrongField(place=field[0], field=field[1], reason=detail)]
        self.headers = dict(headers or {})


def problem(
    status: HTTPStatus,
    code: str,
    detail: str,
    *,
    request_id: str,
    wrong: Sequence[WrongField] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The answer to a request that was refused."""
    told = Problem(
        type=f"urn:holdfast:problem:{code}",
        title=code.replace("-", " ").capitalize(),
        status=status,
        detail=_shortened(detail),
        errors=list(wrong),
        request_id=request_id,
    )
    own = {"cache-control": "no-store", **(headers or {})}
    return Response(told.model_dump_json(), status, media_type=MEDIA_TYPE, headers=own)


def answer_of(error: Exception, request_id: str) -> Response | None:
    """The HTTP answer for an error; None for an unforeseen one."""
    if isinstance(error, Refused):
        return problem(
            error.status, error.code, error.detail, request_id=request_id, wrong=error.wrong, headers=error.headers
        )
    if isinstance(error, RequestValidationError):
        wrong = [_wrong(one) for one in error.errors()]
        detail = "; ".join(": ".join(filter(None, (one.place, one.field, one.reason))) for one in wrong[:5])
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "bad-request", detail, request_id=request_id, wrong=wrong)
    if isinstance(error, HTTPException):
        status = HTTPStatus(error.status_code)
        code = status.phrase.lower().replace(" ", "-")
        return problem(status, code, str(error.detail), request_id=request_id, headers=error.headers)
    for kind, status, field in TABLE:
        if isinstance(error, kind):
            headers = {"retry-after": RETRY_AFTER} if status is HTTPStatus.SERVICE_UNAVAILABLE else None
            place = [] if field is None else [WrongField(place="body", field=field, reason=_shortened(str(error)))]
            code = _code_of(type(error).__name__)
            return problem(status, code, _text(error), request_id=request_id, wrong=place, headers=headers)
    return None


def unforeseen(error: Exception, request_id: str) -> Response:
    """The answer when something broke. The cause goes into the log, not into the answer."""
    _logger.error("request %s failed: %s", request_id, type(error).__name__, exc_info=error)
    detail = "something broke here; the log of the server has it under this request's id"
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal-error", detail, request_id=request_id)


@contextmanager
def too_large(field: str | None) -> Iterator[None]:
    """Within this block, a value that is too large to be stored is reported as this field of the body."""
    try:
        yield
    except errors.PayloadTooLarge as error:
        place = None if field is None else ("body", field)
        status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        raise Refused(status, "payload-too-large", _text(error), field=place) from error


async def handle(request: Request, error: Exception) -> Response:
    """The exception handler of the application."""
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        error = _not_allowed(request)
    elif isinstance(error, HTTPException) and error.status_code == HTTPStatus.NOT_FOUND:
        error = HTTPException(
            HTTPStatus.NOT_FOUND, "there is no such path; /v1/openapi.json lists those that there are"
        )
    request_id = request.scope["holdfast.caller"].request_id
    return answer_of(error, request_id) or unforeseen(error, request_id)


def inner_path(scope: Scope) -> str:
    """The path inside this application, wherever it is mounted, as the router reads it."""
    path: str = scope["path"]
    inner = path.removeprefix(scope.get("root_path", ""))
    # A proxy may have cut the prefix off. Then it is no part of the path, even if the path begins alike.
    return inner if not inner or inner.startswith("/") else path


def operations_at(scope: Scope) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """The path parameters and the operations, by method, of each OpenAPI path that matches. The router itself only
    tells about the first match."""
    path = inner_path(scope)
    for format, operations in scope["app"].openapi()["paths"].items():
        if (found := compile_path(format)[0].match(path)) is not None:
            yield found.groupdict(), operations


def declared(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The responses beside its result that OpenAPI lists for an operation. The edge gives some for all of them."""
    everywhere = (400, 401, 403, 413, 415, 422, 429, 503)
    return {status: {"model": Problem, "description": _meaning(status)} for status in (*everywhere, *statuses)}


def _meaning(status: int) -> str:
    return _MEANINGS.get(status) or HTTPStatus(status).phrase


_MEANINGS = {
    400: "The request can't be read: no JSON, or no valid cursor",
    401: "No valid API key",
    403: "The key may not do this, or the caller is not on this host",
    404: "There is no such workflow, run, hook or value",
    409: "The run, key or hook is in a state that does not allow this",
    410: "The hook has expired",
    413: "Too large",
    415: "The body is not JSON, or is compressed",
    422: "Something in the request is not acceptable; `errors` names the field",
    429: "Too many requests; Retry-After says when to try again",
    503: "The database can't be reached, or too many are connected; try again",
}


def _wrong(error: Mapping[str, Any]) -> WrongField:
    place, *inside = error["loc"] or ("body",)
    field = ".".join(str(part) for part in inside if not str(part).startswith(("function-", "list[", "dict[")))
    return WrongField(place=str(place), field=field, reason=_shortened(str(error["msg"]).removeprefix("Value error, ")))


def _not_allowed(request: Request) -> Refused:
    """The answer to a wrong method. A path may have one route per method, and the router knows only the first."""
    methods = {method.upper() for _, operations in operations_at(request.scope) for method in operations}
    # A path that OpenAPI does not list is its own description, which is read with GET.
    if "GET" in methods or not methods:
        methods |= {"GET", "HEAD"}
    allowed = ", ".join(sorted(methods))
    detail = f"{request.method} is not for this path; expected {allowed}"
    return Refused(HTTPStatus.METHOD_NOT_ALLOWED, "method-not-allowed", detail, headers={"allow": allowed})


def _text(error: Exception) -> str:
    return "; ".join([str(error), *getattr(error, "__notes__", ())])


def _code_of(name: str) -> str:
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")


def _shortened(text: str) -> str:
    # The caller may have sent text that can't be encoded.
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
