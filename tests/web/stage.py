"""The REST API over a real SQLite file, with a real worker beside it, called as an ASGI server would call it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn

import holdfast
from holdfast import AsyncClient, FatalError, step, workflow
from holdfast.web import api, new_key
from tests.worker.stage import Stage, stage


@step
async def charge(card: str) -> str:
    if card == "stolen":
        raise FatalError("this card is stolen")
    return f"charged {card}"


@workflow
async def checkout(card: str, id: str = "") -> dict[str, str]:
    return {"payment": await charge(card), "id": id}


@workflow
async def approval(who: str) -> str:
    holdfast.set_value("asked", who)
    holdfast.emit("log", f"asked {who}")
    answer: str = await holdfast.wait_for_signal("answer", type=str)
    holdfast.emit("log", f"{who} said {answer}")
    return answer


@workflow
async def hooked() -> str:
    hook = holdfast.hook(name="paid", type=int)
    holdfast.set_value("token", hook.token)
    return f"paid {await hook.wait()}"


WORKFLOWS = (checkout, approval, hooked)


def bearer(secret: str) -> dict[str, str]:
    """How a caller shows its key."""
    return {"Authorization": f"Bearer {secret}"}


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Served:
    """A client, and HTTP to the API over it."""

    stage: Stage
    http: httpx.AsyncClient
    app: Any

    @property
    def client(self) -> AsyncClient:
        return self.stage.client

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        if body is not None:
            options["json"] = body
        return await self.http.request(method, path, **options)

    async def start(self, workflow: str, input: Any, **body: Any) -> str:
        answer = await self.call("POST", f"/v1/workflows/{workflow}/runs", {"input": input, **body})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    async def ended(self, workflow: str, input: Any, **body: Any) -> str:
        """The id of a run that has ended."""
        run_id = await self.start(workflow, input, **body)
        await (await self.client.get_run(run_id)).wait(timeout="60s")
        return run_id


def reached(app: Any, *, address: str = "127.0.0.1", host: str = "localhost", **headers: str) -> httpx.AsyncClient:
    """A caller at that address."""
    transport = httpx.ASGITransport(app, client=(address, 4711))
    return httpx.AsyncClient(transport=transport, base_url=f"http://{host}", headers=headers)


@asynccontextmanager
async def served(url: str, *workflows: Any, **options: Any) -> AsyncIterator[Served]:
    """The API over a client of its own, and a worker for the workflows."""
    async with stage(url, *(workflows or WORKFLOWS)) as made:
        app = api(made.client, **{"rate": None, **options})
        async with reached(app) as http:
            yield Served(made, http, app)


@asynccontextmanager
async def listening(app: Any) -> AsyncIterator[str]:
    """A real server on a socket of its own; yields its address."""
    # Nobody is hung up on between two requests, however far apart a slow machine has them.
    config = uvicorn.Config(app, port=0, log_level="error", lifespan="on", timeout_keep_alive=3600)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving


SECRET, KEY = new_key("server", "admin", payloads=True)
HEADERS = {"Authorization": f"Bearer {SECRET}"}
RUNS = {"completed": "checkout", "failed": "checkout", "waiting": "approval"}


class Server(threading.Thread):
    """A server with a worker, and runs in every state, on a loop of its own."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.address = ""
        self.error: BaseException | None = None
        self.is_up = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.is_over = asyncio.Event()

    def run(self) -> None:
        try:
            self.loop.run_until_complete(self._serve())
        except BaseException as error:
            self.error = error
        finally:
            self.is_up.set()

    async def _serve(self) -> None:
        async with stage(self.url, *WORKFLOWS) as made:
            client = made.client
            for name, workflow in RUNS.items():
                run = await client.start(workflow, "stolen" if name == "failed" else "4711", id=name, tags={"a": "b"})
                await (made.until_waiting(run) if name == "waiting" else run.wait("60s"))
            async with listening(api(client, keys=[KEY], rate=None, streams=1000)) as self.address:
                self.is_up.set()
                await self.is_over.wait()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.is_over.set)
        self.join(30)
        self.loop.close()
