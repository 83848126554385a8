"""Holdfast over HTTP. Everything goes through the public client; this room knows no store.

    api          the REST application (FastAPI), to be served or mounted ──▶ application
                   edge          what every request passes: access, limits, audit
                   runs, managing, messages, fleet, streams, changes      the routes, by noun
                   shapes, showing, problems                              what goes over the wire
    execute_app  POST …/{run_id}/execute drives a run: for hosts that run code only while a request is open

Importing this room imports no web framework: `execute_app` is plain ASGI, and `api` loads FastAPI when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from holdfast.client import AsyncClient
from holdfast.extras import load_extra

from .access import ApiKey, Right, new_key
from .audit import AuditRecord
from .execute import execute_app

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["ApiKey", "AuditRecord", "Right", "api", "execute_app", "new_key"]


def api(
    client: AsyncClient | str | None = None,
    *,
    keys: Iterable[ApiKey | str] = (),
    allow_remote: bool = False,
    open_hooks: bool = False,
    cors: Iterable[str] = (),
    max_body: int = 5 * 1024 * 1024,
    rate: float | None = 100.0,
    streams: int = 100,
    audit: Callable[[AuditRecord], None] | None = None,
    metrics: Callable[[], str | bytes | tuple[bytes, str]] | None = None,
) -> FastAPI:
    """The REST API as an ASGI application, to be served by uvicorn or mounted into your own.

        app = holdfast.web.api("sqlite:///orders.db")                  # uvicorn module:app
        mine.mount("/holdfast", holdfast.web.api(client, allow_remote=True))

    `client` is an AsyncClient, which you close yourself, or the address of a database; by default the settings name
    one. A client that is made here is closed when the server shuts down. An application that mounts this one does not
    report its shutdown, so pass a client of your own there.

    `keys` are API keys in their stored form (see `new_key`), or their lines of text. Without keys, only callers on this
    host are served, unless `allow_remote` says that something else guards the API. With `open_hooks`, POST
    /v1/hooks/{token} needs no key but the hook's token. `cors` lists origins whose pages may call the API; none by
    default.

    `max_body` is in bytes. `rate` is how many requests a second each key, or without keys each address, may make;
    bursts may be twice as large. None is no limit. `streams` is how many requests may stay connected at once: event
    streams, and waits for a result.

    `audit` is called with a record of each request that changes something; by default the logger `holdfast.audit`
    writes it. `metrics` returns the text of /metrics in Prometheus's format, as `holdfast.observe.Prometheus().render`
    does; by default that of a Prometheus among the client's own observers.
    """
    load_extra("fastapi", extra="web", needed_by="holdfast.web.api")
    application = load_extra("holdfast.web.application", extra="web", needed_by="holdfast.web.api")
    app: FastAPI = application.build(
        client,
        keys=keys,
        allow_remote=allow_remote,
        open_hooks=open_hooks,
        cors=cors,
        max_body=max_body,
        rate=rate,
        streams=streams,
        audit=audit,
        metrics=metrics,
    )
    return app
