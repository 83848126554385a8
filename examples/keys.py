"""One run for one thing: a key makes a start safe to repeat, and on_conflict says what a second start means.

Look at `created`: however often an order is sent, it is charged once, even after its run has ended.
"""

import asyncio
import tempfile

from holdfast import AsyncClient, KeyTaken, Retry, RunFailed, Worker, step, workflow

charged: list[str] = []
is_working = False


@step
async def charge(order: str) -> str:
    charged.append(order)
    return f"charged {order}"


@step(retry=Retry(attempts=1))
async def ship(order: str) -> str:
    if not is_working:
        raise ConnectionRefusedError("the carrier is closed")
    return f"shipped {order}"


@workflow
async def checkout(order: str) -> str:
    await charge(order)
    return await ship(order)


async def main() -> None:
    global is_working
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/shop.db") as client, Worker(client, workflows=[checkout]):
            runs = [await client.start(checkout, "o-1", key="o-1") for _ in range(3)]
            print("created:", [run.created for run in runs], "runs:", len({run.id for run in runs}))
            try:
                await client.start(checkout, "o-1", key="o-1", on_conflict="raise")
            except KeyTaken as error:
                print("taken by the run we know:", error.run_id == runs[0].id)
            try:
                await runs[0].result(timeout=30)
            except RunFailed as error:
                print("failed:", error.__cause__)
            is_working = True
            again = await client.start(checkout, "o-1", key="o-1", on_conflict="retry")
            print(await again.result(timeout=30), "and charged", len(charged), "time")
            print("found by its key:", (await client.get_run(checkout, key="o-1")).id == again.id)


if __name__ == "__main__":
    asyncio.run(main())
