"""Workflows that begin others: awaited directly, held by a handle, or left to live on without their parent.

Look at the failed child: its own exception comes back, with a note that names its run. And look at the newsletter: its
parent ends first, and it goes on, because it was abandoned on purpose.
"""

import asyncio
import tempfile

import holdfast
from holdfast import AsyncClient, RunFilter, Worker, workflow


@workflow
async def pack(item: str) -> str:
    if item == "glass":
        raise ValueError("it broke")
    return f"packed {item}"


@workflow
async def deliver() -> str:
    return f"delivered to {await holdfast.wait_for_signal('address', type=str)}"


@workflow
async def newsletter() -> None:
    await holdfast.sleep("0.2s")


@workflow
async def order() -> list[str]:
    lines = [await pack("tea")]
    try:
        await pack("glass")
    except ValueError as error:
        lines.append(f"{error}, in a run of {error.__notes__[-1].rpartition(' of ')[2]}")
    delivery = deliver.start()
    delivery.signal("address", "Elm Street 1")
    lines.append(await delivery)
    newsletter.options(on_parent_end="abandon").start()
    return lines


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with (
            AsyncClient(f"sqlite:///{folder}/shop.db") as client,
            Worker(client, workflows=[order, pack, deliver, newsletter]),
        ):
            run = await client.start(order)
            print(*await run.result(timeout=30), sep="\n")
            async for child in client.runs(RunFilter(parent=run.id, workflow=newsletter)):
                print("the newsletter:", await child.wait(timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
