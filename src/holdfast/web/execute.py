"""Driving runs by HTTP: `POST …/{run_id}/execute` takes turns of one run and says whether it is done.

Nothing is kept between requests. Each is a drive of its own with a lease of its own, so concurrent requests for one run
are as safe as two workers. Who may call is for the surrounding application to decide.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from holdfast.errors import HoldfastError, RunNotFound, StoreAway, UnknownWorkflow
from holdfast.model import Duration, is_name, microseconds
from holdfast.worker import Driven, Worker

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_RETRY_AFTER = "5"


def execute_app(worker: Worker, *, budget: Duration = "25s") -> App:
    """An ASGI application that drives runs: mount it wherever a platform calls you.

        app = execute_app(Worker("postgresql://…", workflows=[checkout]), budget="25s")

        POST /{run_id}/execute    200 {"done": false, "reason": "waiting", "status": "waiting", "due_at": "2026-…"}

    It may be mounted under any prefix. `done` is true when the run has ended. Otherwise call again: at once if the
    reason is "budget"; at `due_at` or after the next message if it is "waiting". Keep `budget` a few seconds below the
    platform's limit, for a step in flight then gets a few seconds to end. A request that is cut off leaves what a
    killed worker leaves, and the next one goes on from there.

    Errors are problem+json: 404 for a run that does not exist or that the worker does not serve, and for any other
    path; 405 for any method but POST; 503 with Retry-After while the database can't be reached; 500 for everything
    else that Holdfast refuses.
    """
    microseconds(budget, what="execute_app(budget=)")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _answer_lifespan(receive, send)
        elif scope["type"] == "http":
            await _answer(worker, budget, scope, send)
        else:
            # Closing before accepting refuses the websocket.
            await send({"type": "websocket.close", "code": 1000})

    return app


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    """Answer the server's lifespan messages. There is nothing to prepare."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _answer(worker: Worker, budget: Duration, scope: Scope, send: Send) -> None:
    run_id = _run_id_in(scope)
    if run_id is None:
        await _refuse(send, HTTPStatus.NOT_FOUND, "expected a path that ends in {run_id}/execute")
        return
    if scope["method"] != "POST":
        reason = f"{scope['method']} would change nothing here; expected POST"
        await _refuse(send, HTTPStatus.METHOD_NOT_ALLOWED, reason, (b"allow", b"POST"))
        return
    try:
        driven = await worker.drive(run_id, budget)
    except (RunNotFound, UnknownWorkflow) as error:
        await _refuse(send, HTTPStatus.NOT_FOUND, str(error))
    except StoreAway as error:
        header = b"retry-after", _RETRY_AFTER.encode()
        await _refuse(send, HTTPStatus.SERVICE_UNAVAILABLE, f"{error}; the run is as it was, call again", header)
    except HoldfastError as error:
        await _refuse(send, HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
    else:
        await _send(send, HTTPStatus.OK, b"application/json", _answer_of(driven))


def _run_id_in(scope: Scope) -> str | None:
    """The run that a path names, or None. Read from the raw path, where a slash inside an id is percent-encoded."""
    raw = scope.get("raw_path")
    # Some servers leave the query in the raw path, and some bytes in it are not text.
    path = raw.decode("utf-8", "replace").partition("?")[0] if raw else None
    parts = scope["path"].split("/") if path is None else [unquote(part) for part in path.split("/")]
    if len(parts) < 2 or parts[-1] != "execute" or not is_name(parts[-2], 500):
        return None
    return str(parts[-2])


def _answer_of(driven: Driven) -> dict[str, Any]:
    return {
        "done": driven.done,
        "reason": driven.reason,
        "status": driven.status,
        "due_at": None if driven.due_at is None else driven.due_at.isoformat(),
    }


async def _refuse(send: Send, status: HTTPStatus, detail: str, *headers: tuple[bytes, bytes]) -> None:
    problem = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail}
    await _send(send, status, b"application/problem+json", problem, *headers)


async def _send(
    send: Send, status: HTTPStatus, kind: bytes, content: dict[str, Any], *headers: tuple[bytes, bytes]
) -> None:
    body = json.dumps(content).encode()
    length = str(len(body)).encode()
    own = [(b"content-type", kind), (b"content-length", length), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status.value, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": body})
