"""Cancelling a run: it wakes at once and cleans up with its own steps, but is not interrupted inside a shield.

Look at the order of the lines: the cancel comes while the transfer is in its shield, and takes effect after it.
"""

import asyncio
import tempfile

import holdfast
from holdfast import AsyncClient, RunCancelled, Worker, shield, step, workflow

busy = asyncio.Event()


@step
async def clean_up() -> None:
    print("cleaning up, with a step")


@step
async def transfer() -> None:
    busy.set()
    await asyncio.sleep(0.3)
    print("both halves of the transfer are done")


@workflow
async def payout() -> None:
    try:
        with shield():
            await transfer()
        await holdfast.sleep("30d")
    finally:
        await clean_up()


@workflow
async def stuck() -> None:
    with shield():
        await holdfast.sleep("30d")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/bank.db") as client, Worker(client, workflows=[payout, stuck]):
            run, other = await client.start(payout), await client.start(stuck)
            await busy.wait()
            await run.cancel(reason="the customer called")
            try:
                await run.result(timeout=30)
            except RunCancelled as error:
                print(str(error).partition(": ")[2].partition(";")[0])
            print("again:", str(await run.cancel()).partition(" had ")[2])
            print("by force:", bool(await other.cancel(force=True)), (await other.refresh()).status)


if __name__ == "__main__":
    asyncio.run(main())
