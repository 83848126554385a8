"""serve: the REST API alone, in this process."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import typer

from holdfast.client import AsyncClient
from holdfast.errors import DefinitionError, HoldfastError
from holdfast.extras import find_extra, load_extra
from holdfast.observe import Observer, Prometheus, observers_of
from holdfast.settings import Settings
from holdfast.web import ApiKey, api

from .exits import WrongSettings
from .options import Place, codec_of
from .output import print_line, print_note
from .plan import set_up_logging
from .workers import LogLevel

_GRACE = 5
"""Seconds for which open connections may go on after the server was told to stop."""
_LOOK = 0.1
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

Listen = Annotated[
    str | None,
    typer.Option("--listen", help="The address to listen on. [default: 127.0.0.1:8400]", metavar="[HOST:]PORT"),
]
AllowRemote = Annotated[
    bool | None,
    typer.Option(
        "--allow-remote",
        help="Serve other hosts without API keys, because something else guards the API.",
        show_default=False,
    ),
]
Cors = Annotated[
    str | None,
    typer.Option("--cors", help="Origins whose pages may call the API, separated by commas.", metavar="ORIGINS"),
]


def serve(
    *,
    listen: Listen = None,
    allow_remote: AllowRemote = None,
    cors: Cors = None,
    place: Place,
    log_level: Annotated[LogLevel, typer.Option("--log-level", help="How much to log, to stderr.")] = LogLevel.INFO,
) -> None:
    """Serve the REST API until SIGTERM or Ctrl-C. It executes no runs: workers do.

    Keys come from the setting `api_keys`; `holdfast keys` makes one. Without keys, only callers on this host are
    answered.
    """
    settings = place.settings(listen=listen, allow_remote=allow_remote, cors=cors)
    # Before the database is opened, which may create or migrate it.
    for package in ("fastapi", "uvicorn"):
        load_extra(package, extra="web", needed_by="holdfast serve")
    set_up_logging(log_level)
    asyncio.run(_serve(settings, log_level))


async def _serve(settings: Settings, log_level: str) -> None:
    codec = codec_of(settings)
    client = AsyncClient(
        settings.url,
        namespace=settings.namespace,
        schema=settings.schema,
        codec=codec,
        migrate=settings.migrate,
        observers=watching(settings),
    )
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        # Windows has no such handlers; there Ctrl-C cancels the running task.
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stopping.set)
    # Also before the database is opened.
    offered = offer(settings, client)
    with offered.bound:
        async with client, answering(offered, log_level=log_level, gone=stopping.set):
            host, port = settings.listen
            if host not in _LOOPBACK and not settings.api_keys and not settings.allow_remote:
                print_note(
                    "there are no api_keys, so only callers on this host are answered; `holdfast keys` makes one"
                )
            print_line(f"ready on {address_of(host, port)} for {client.url}")
            await stopping.wait()


def watching(settings: Settings) -> list[Observer]:
    """The observers of a process with a REST API: counting for /metrics if possible, and tracing if it is asked for."""
    counting: list[Observer] = [] if find_extra("prometheus_client") is None else [Prometheus.shared()]
    return counting + observers_of(replace(settings, metrics=None), is_worker=False)


class Offered(NamedTuple):
    """A REST API that is not served yet, and the socket bound for it."""

    app: Any
    bound: socket.socket


def offer(settings: Any, client: AsyncClient) -> Offered:
    """The REST API that the settings (or a plan) describe. Raises if it can't be, with the database still closed."""
    try:
        keys = [ApiKey.parse(line) for line in settings.api_keys]
    except DefinitionError as error:
        raise WrongSettings(f"api_keys: {error}") from error
    try:
        app = api(client, keys=keys, allow_remote=settings.allow_remote, cors=settings.cors)
    except DefinitionError as error:
        raise WrongSettings(str(error)) from error
    return Offered(app, bound_socket(*settings.listen))


@contextlib.asynccontextmanager
async def answering(
    offered: Offered, *, log_level: str, gone: Callable[[], None] = lambda: None
) -> AsyncIterator[None]:
    """Within this block, the REST API is served. `gone` is called if it ends on its own."""
    uvicorn = load_extra("uvicorn", extra="web", needed_by="the REST API")
    app, bound = offered
    config = uvicorn.Config(
        app, log_config=None, log_level=log_level, access_log=False, timeout_graceful_shutdown=_GRACE, lifespan="on"
    )
    server = uvicorn.Server(config)
    # This process handles signals itself. uvicorn would send them to the process again after it has stopped.
    server.capture_signals = contextlib.nullcontext
    serving = asyncio.ensure_future(server.serve(sockets=[bound]))
    serving.add_done_callback(lambda _: gone())
    try:
        while not server.started and not serving.done():  # noqa: ASYNC110  # uvicorn tells nobody when it has begun
            await asyncio.sleep(0.01)
        if serving.done():
            raise HoldfastError("the REST API could not begin; see the lines above") from serving.exception()
        yield
    finally:
        # Ends streams and waits at once; else uvicorn would wait for the grace period and cut them off.
        app.state.holdfast.ending.set()
        server.should_exit = True
        await asyncio.wait([serving])
        bound.close()


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that is bound there. Raises HoldfastError if that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise HoldfastError(
            f"{host}:{port} can't be listened on: {error.strerror or error}; end what listens there, or choose another "
            "one: --listen 127.0.0.1:8401"
        ) from error
    return found


def until_free(
    host: str,
    port: int,
    patience: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until nobody listens there, for at most `patience` seconds; then raise as `bound_socket` does."""
    began_at = clock()
    is_told = False
    while True:
        try:
            bound_socket(host, port).close()
            return
        except HoldfastError as error:
            is_taken = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE
            if not is_taken or clock() - began_at >= patience:
                raise
        if not is_told:
            is_told = True
            print_note(f"{host}:{port} is taken; it is waited for, since an earlier process may be about to end")
        sleep(_LOOK)


def address_of(host: str, port: int) -> str:
    """The address as a browser takes it."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
