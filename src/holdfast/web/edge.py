"""The edge: every request passes it before a route sees it, and every answer on its way out.

In this order: give the request an id; find out who calls and whether the caller may do this; limit the rate; check that
the body is JSON, not too large and not too deep. A request that is refused here reveals nothing, whatever its path: no
route was looked up and nothing was read.

Plain ASGI, so that streams pass through as they come.
"""

from __future__ import annotations

import json
import logging
import math
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import unquote

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .access import Caller, Keys, allows, foreign, needed_for
from .audit import AuditRecord, named, outcome_of
from .limits import DEEPEST, Buckets, is_too_deep
from .problems import BELOW_WORKFLOW, Refused, answer_of, inner_path, operations_at, unforeseen
from .sse import HEAD

SLASH = "\udc2f"
"""Stands for a slash inside one segment of the path. No text from the wire and no name can contain it."""
OPEN = ("/healthz", "/readyz")
"""Paths that need no key, and reveal nothing that would need one."""
_HOOKS = "/v1/hooks/"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_TRACESTATE = re.compile(r"[\x20-\x7e]{1,512}")
_READING = ("GET", "HEAD", "OPTIONS")
_HALF = "it holds half a character, as the escape \\ud800 is without its other half"
_logger = logging.getLogger("holdfast.web")
_json = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class Rules:
    """What the edge was configured with."""

    keys: Keys
    allow_remote: bool
    open_hooks: bool
    origins: tuple[str, ...]
    max_body: int
    buckets: Buckets | None
    audit: Callable[[AuditRecord], None]
    within: Callable[[str], AbstractContextManager[object]]
    """Puts code into a caller's trace, if the client is traced."""


class Edge:
    """The ASGI middleware."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                # Closing before accepting refuses the connection.
                await send({"type": "websocket.close", "code": 1000})
                return
            await self._app(scope, receive, send)
            return
        # Copied: the server and outer middleware keep the path as it came, and what they have put into the scope.
        scope = {**_with_quoted_slashes(scope), "path_params": {}}
        headers = Headers(scope=scope)
        caller = _new_caller(scope, headers)
        scope["holdfast.caller"] = caller
        # Audited before the answer goes out: whoever knows of a change finds it in the log.
        answer = _Answer(_without_body(send, scope), caller.request_id, lambda status: self._audit(scope, status))
        try:
            caller = scope["holdfast.caller"] = self._identified(scope, headers, caller)
            self._limit_rate(scope, caller)
            receive = await self._read_body(scope, headers, receive)
            if scope["method"] == "HEAD":
                # Routes see a GET. The answer goes out without its body.
                scope = {**scope, "method": "GET", HEAD: True}
            with self._within(headers):
                await self._app(scope, receive, answer.send)
        except Refused as refused:
            response = answer_of(refused, caller.request_id) or unforeseen(refused, caller.request_id)
            await response(scope, receive, answer.send)
        except Exception as error:
            # Answered here, so that the answer has the request's id. Raised nevertheless, for the server's own log.
            if not answer.is_told:
                await unforeseen(error, caller.request_id)(scope, receive, answer.send)
            raise
        except BaseException:
            # Also for a cancel: a server that shuts down breaks requests off whose changes may have happened.
            answer.tell(HTTPStatus.INTERNAL_SERVER_ERROR)
            raise

    def _identified(self, scope: Scope, headers: Headers, caller: Caller) -> Caller:
        """Who calls. Refuses a wrong or missing key; without keys, refuses callers that are not on this host."""
        rules, path = self._rules, inner_path(scope)
        if path in OPEN:
            return replace(caller, who="anybody")
        if rules.keys:
            key = rules.keys.find(headers.get("authorization", ""))
            is_open = rules.open_hooks and _is_hook(scope)
            if key is None and is_open:
                return replace(caller, who="hook", right="operate")
            if key is None:
                self._limit_rate(scope, caller)
                raise Refused(
                    HTTPStatus.UNAUTHORIZED,
                    "unauthorized",
                    "expected an API key: send the header Authorization: Bearer hf_…",
                    headers={"www-authenticate": "Bearer"},
                )
            known = replace(caller, who=key.id, right=key.right, sees_payloads=key.payloads)
            # With open hooks the token is enough, whatever the key beside it may do.
            if not is_open and not allows(key.right, scope["method"]):
                scope["holdfast.caller"] = known
                self._limit_rate(scope, known)
                needed = needed_for(scope["method"])
                raise Refused(
                    HTTPStatus.FORBIDDEN, "forbidden", f"{scope['method']} needs a key with the right {needed!r}"
                )
            return known
        if rules.allow_remote:
            return replace(caller, who="anybody", right="admin", sees_payloads=True)
        reason = foreign(headers, caller.address, rules.origins)
        if reason is None:
            return replace(caller, who="local", right="admin", sees_payloads=True)
        if rules.open_hooks and _is_hook(scope):
            return replace(caller, who="hook", right="operate")
        # By a bucket of its own: what a web page or a proxy on this host sends must not use up what its user may.
        self._limit_rate(scope, caller, "stranger")
        raise Refused(
            HTTPStatus.FORBIDDEN,
            "not-local",
            f"without API keys only this host is served, and {reason}; set keys, or allow_remote if something else "
            "guards this API",
        )

    def _limit_rate(self, scope: Scope, caller: Caller, kind: str = "address") -> None:
        buckets = self._rules.buckets
        if buckets is None or inner_path(scope) in OPEN:
            return
        # A key is one caller, wherever it is used. Without a key, an address is.
        is_key = self._rules.keys and caller.who not in ("nobody", "hook")
        wait = buckets.take(f"key {caller.who}" if is_key else f"{kind} {caller.address}")
        if wait > 0:
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too-many-requests",
                "too many requests; Retry-After says in how many seconds the next one is taken",
                headers={"retry-after": str(math.ceil(wait))},
            )

    async def _read_body(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        """Read the whole body and check it. It is bounded, so streaming would gain nothing."""
        if scope["method"] in _READING:
            return receive
        most = self._rules.max_body
        length = headers.get("content-length", "0")
        if length.isdecimal() and len(length) < 20 and int(length) > most:
            raise _too_large(most)
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                # The missing part could change the meaning.
                raise Refused(HTTPStatus.BAD_REQUEST, "body-cut-off", "the body did not come whole", field=("body", ""))
            body += message.get("body", b"")
            if len(body) > most:
                raise _too_large(most)
            if not message.get("more_body", False):
                break
        whole = bytes(body)
        if whole:
            _check_json(whole, headers)
        return _replayed(whole, receive)

    def _within(self, headers: Headers) -> AbstractContextManager[object]:
        """Join the trace that the caller names, for the runs that it starts and the messages that it sends."""
        parent, state = headers.get("traceparent", ""), headers.get("tracestate", "")
        if not _TRACEPARENT.fullmatch(parent):
            return nullcontext()
        return self._rules.within(f"{parent} {state}" if _TRACESTATE.fullmatch(state) else parent)

    def _audit(self, scope: Scope, status: int) -> None:
        if scope["method"] in _READING or status == HTTPStatus.TOO_MANY_REQUESTS:
            return
        caller: Caller = scope["holdfast.caller"]
        params: Mapping[str, str] = scope.get("path_params") or {}
        route = scope.get("route")
        what = None if route is None else str(route.name)
        if what is None or status == HTTPStatus.METHOD_NOT_ALLOWED:
            what, params = _operation_of(scope)
        params = {name: with_slashes(text) for name, text in params.items()}
        record = AuditRecord(
            who=caller.who,
            address=caller.address,
            what=what,
            workflow=params.get("workflow"),
            run_id=caller.run_id or params.get("run_id"),
            name=named(params),
            outcome=outcome_of(status),
            status=status,
            request_id=caller.request_id,
        )
        try:
            self._rules.audit(record)
        except Exception:
            # The change has happened. An answer that denies it would be worse than a gap in the log.
            _logger.exception("the audit log could not take %s", record)


class _Answer:
    """Adds the request's id to the answer, and reports the outcome once."""

    def __init__(self, send: Send, request_id: str, told: Callable[[int], None]) -> None:
        self._send = send
        self._request_id = request_id
        self._told = told
        self.is_told = False

    def tell(self, status: int) -> None:
        if not self.is_told:
            self.is_told = True
            self._told(status)

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.tell(message["status"])
            headers = MutableHeaders(raw=message["headers"])
            headers["x-request-id"] = self._request_id
            headers["x-content-type-options"] = "nosniff"
            headers.setdefault("cache-control", "no-store")
        await self._send(message)


def _without_body(send: Send, scope: Scope) -> Send:
    """`send` itself, or for HEAD one that drops the body."""
    if scope["method"] != "HEAD":
        return send

    async def head(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return head


def _new_caller(scope: Scope, headers: Headers) -> Caller:
    given = headers.get("x-request-id", "")
    request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
    peer = scope.get("client")
    return Caller(request_id, "nobody", str(peer[0]) if peer else "unknown")


def _operation_of(scope: Scope) -> tuple[str, Mapping[str, str]]:
    """The operation that a refused request was for, and its path parameters: no route has seen the request."""
    for params, operations in operations_at(scope):
        if (found := operations.get(scope["method"].lower())) is not None:
            return found["operationId"].removesuffix(BELOW_WORKFLOW), params
    return scope["method"], {}


def _is_hook(scope: Scope) -> bool:
    return scope["method"] == "POST" and inner_path(scope).startswith(_HOOKS)


def _with_quoted_slashes(scope: Scope) -> Scope:
    """The scope with slashes inside ids kept apart. They come percent-encoded, and must not split the path."""
    raw = scope.get("raw_path")
    if not raw or b"%2f" not in raw.lower():
        return {**scope}
    parts = raw.decode("ascii", "replace").partition("?")[0].split("/")
    return {**scope, "path": "/".join(unquote(part).replace("/", SLASH) for part in parts)}


def with_slashes(text: str) -> str:
    """A part of the path with its own slashes again."""
    return text.replace(SLASH, "/")


def _check_json(body: bytes, headers: Headers) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Refused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "expected JSON, with the header Content-Type: application/json",
            field=("header", "content-type"),
        )
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        # A small body may unpack to an endless one, and bodies here are too small to gain by compression.
        raise Refused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "expected JSON as it is, not compressed: leave out the header Content-Encoding",
            field=("header", "content-encoding"),
        )
    if is_too_deep(body):
        raise _bad_json(f"it nests deeper than {DEEPEST} levels")
    try:
        _json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise _bad_json(_HALF if _has_half_a_character(body) else str(error)) from None


def _has_half_a_character(body: bytes) -> bool:
    """Whether a lone surrogate is what is wrong: the decoder's own message would mislead."""
    try:
        json.dumps(json.loads(body), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    except ValueError:
        pass
    return False


def _bad_json(reason: str) -> Refused:
    return Refused(
        HTTPStatus.BAD_REQUEST, "bad-json", f"the body is no JSON that can be taken: {reason}", field=("body", "")
    )


def _too_large(most: int) -> Refused:
    return Refused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "body-too-large",
        f"the body is larger than {most} bytes; keep large things elsewhere, and send where they are",
        field=("body", ""),
    )


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A receive that returns the body once more, and then what really comes: the end of the connection."""
    is_given = False

    async def again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
