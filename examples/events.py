"""Facts that anybody may wait for: one publish wakes every run that waits for it, and begins runs of workflows with
on_event.

Look at the late run: it asked after the event was published and still gets it, because the run existed by then. And
look at the audit: nobody started it.
"""

import asyncio
import tempfile
from typing import Any

import holdfast
from holdfast import AsyncClient, Worker, step, workflow

book: asyncio.Queue[str] = asyncio.Queue()


@workflow
async def ship(order: str) -> str:
    paid = await holdfast.wait_for_event("paid", match={"order": order}, timeout="3d")
    return f"{order}: {paid['cents']} cents came in, shipped"


@workflow
async def late(order: str) -> str:
    await holdfast.sleep("0.3s")
    paid = await holdfast.wait_for_event("paid", match={"order": order})
    return f"{order}: looked later, and found {paid['cents']} cents"


@step
async def enter(line: str) -> None:
    await book.put(line)


@workflow(on_event="paid", match={"currency": "EUR"})
async def audit(paid: dict[str, Any]) -> None:
    await enter(f"audit: {paid['order']} was paid in {paid['currency']}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/shop.db") as client, Worker(client, workflows=[ship, late, audit]):
            runs = [await client.start(ship, "o-1"), await client.start(late, "o-1"), await client.start(ship, "o-2")]
            await client.publish("paid", {"order": "o-1", "cents": 1200, "currency": "EUR"}, message_id="payment-1")
            await client.publish("paid", {"order": "o-2", "cents": 900, "currency": "USD"}, message_id="payment-2")
            for run in runs:
                print(await run.result(timeout=30))
            print(await book.get())


if __name__ == "__main__":
    asyncio.run(main())
