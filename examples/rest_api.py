"""Runs over HTTP: a run is started, followed, approved and read by requests alone, by keys with different rights.

Look at the last lines: a key that may only read sees that the run has completed, and neither what it was given nor
what it came to; and it may not start anything.
"""

import asyncio
import json
import socket
import tempfile
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import uvicorn

import holdfast
from holdfast import AsyncClient, Worker, step, workflow
from holdfast.web import api, new_key


@step
async def charge(card: str) -> str:
    return f"charged {card}"


@workflow
async def checkout(card: str) -> dict[str, Any]:
    holdfast.emit("log", "waiting for somebody to approve")
    by = await holdfast.wait_for_signal("approved", type=str)
    return {"payment": await charge(card), "by": by}


def call(method: str, url: str, key: str, body: Any = None) -> Any:
    """One request, with nothing but the standard library."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        with urlopen(Request(url, data, headers, method=method)) as answer:
            return json.load(answer)
    except HTTPError as refused:
        return json.load(refused)


def follow(url: str, key: str) -> None:
    """Print a run's events until it ends."""
    with urlopen(Request(url, headers={"Authorization": f"Bearer {key}"})) as events:
        for line in events:
            if line.startswith(b"data:") and b'"stream"' in line:
                print("log:", json.loads(line[5:])["value"])


def use(address: str, operator: str, reader: str) -> None:
    """What anybody does who has the address and a key."""
    runs = f"{address}/v1/workflows/checkout/runs"
    run = call("POST", runs, operator, {"input": {"card": "4242"}, "key": "order-1"})
    here = f"{address}/v1/runs/{run['id']}"
    print("approve:", call("POST", f"{here}/signals/approved", operator, "ann"))
    follow(f"{here}/stream?name=log", operator)
    print("result:", call("GET", f"{here}/result?wait=10s", operator)["result"])
    seen = call("GET", here, reader)
    print("reader:", seen["status"], seen["input"], seen["result"])
    print("reader:", call("POST", runs, reader, {"input": ["4242"]})["detail"])


async def main() -> None:
    operator, operator_key = new_key("shop", "operate", payloads=True)
    reader, reader_key = new_key("dashboard", "read")
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/shop.db") as client, Worker(client, workflows=[checkout]):
            app = api(client, keys=[operator_key, reader_key])
            server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
            door = socket.create_server(("127.0.0.1", 0))
            serving = asyncio.create_task(server.serve(sockets=[door]))
            await asyncio.to_thread(use, f"http://127.0.0.1:{door.getsockname()[1]}", operator, reader)
            server.should_exit = True
            await serving


if __name__ == "__main__":
    asyncio.run(main())
