"""Runs over HTTP: requests alone start, approve and read a run, with keys of different rights.

The last lines show that a key that may only read sees the run's status, not its input or result, and starts nothing.
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
from holdfast import AsyncClient, Worker, workflow
from holdfast.web import api, new_key


@workflow
async def checkout(card: str) -> str:
    return f"{card} was approved by {await holdfast.wait_for_signal('approved', type=str)}"


def call(url: str, key: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        return json.load(urlopen(Request(url, None if body is None else json.dumps(body).encode(), headers)))
    except HTTPError as refused:
        return json.load(refused)


def use(address: str, operator: str, reader: str) -> None:
    """What anybody can do who has the address and a key."""
    runs = f"{address}/v1/workflows/checkout/runs"
    here = f"{address}/v1/runs/{call(runs, operator, {'input': {'card': '4242'}, 'key': 'order-1'})['id']}"
    print("approve:", call(f"{here}/signals/approved", operator, "ann"))
    print("result:", call(f"{here}/result?wait=10s", operator)["result"])
    print("reader:", *(call(here, reader)[name] for name in ("status", "input", "result")))
    print("reader:", call(runs, reader, {"input": ["4242"]})["detail"])


async def main() -> None:
    (operator, operator_key), (reader, reader_key) = new_key("shop", "operate", payloads=True), new_key("board", "read")
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as door:
        client = AsyncClient(f"sqlite:///{folder}/shop.db")
        app = api(client, keys=[operator_key, reader_key])  # before the worker begins: this imports FastAPI
        async with client, Worker(client, workflows=[checkout]):
            server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
            serving = asyncio.create_task(server.serve(sockets=[door]))
            await asyncio.to_thread(use, f"http://127.0.0.1:{door.getsockname()[1]}", operator, reader)
            server.should_exit = True
            await serving


if __name__ == "__main__":
    asyncio.run(main())
