"""Runs without a long-lived worker: a function is called now and then, takes turns, and says whether the run is done.

Look at the two calls at once: both are answered, and the card is charged once. `execute_app` does the same as an ASGI
application; it is called here as a server would call it.
"""

import asyncio
import tempfile
from typing import Any

import holdfast
from holdfast import AsyncClient, Worker, step, workflow
from holdfast.web import execute_app


@step
async def charge(card: str) -> str:
    print(f"charging {card}")
    return f"charged {card}"


@workflow
async def checkout(card: str) -> str:
    payment = await charge(card)
    await holdfast.wait_for_signal("shipped")
    return payment


async def post(app: Any, path: str) -> None:
    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            print(f"POST …/execute: {message['body'].decode()}")

    await app({"type": "http", "method": "POST", "path": path}, None, send)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/shop.db"
        async with AsyncClient(url) as client:
            run = await client.start(checkout, "4242")
            worker = Worker(url, workflows=[checkout])
            both = await asyncio.gather(*(worker.drive(run.id, budget="5s") for _ in range(2)))
            print("done:", [driven.done for driven in both])
            await run.signal("shipped")
            await post(execute_app(worker, budget="5s"), f"/runs/{run.id}/execute")
            print(await run.result(timeout=0))


if __name__ == "__main__":
    asyncio.run(main())
