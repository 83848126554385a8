"""Changing code under live runs: `patched` in one function, or two versions of a workflow side by side.

Look at the old run: it was under way when the change came, so it goes on the old way. The new run goes the new way.
"""

import asyncio
import tempfile

import holdfast
from holdfast import AsyncClient, JournalDiverged, Worker, step, workflow
from holdfast.testing import replay


@step
async def do(what: str) -> str:
    return what


@workflow(name="order")
async def before() -> list[str]:
    done = [await do("ship")]
    await holdfast.sleep("1s")
    return [*done, await do("bill")]


@workflow(name="order")  # what the same function looks like after a deploy
async def after() -> list[str]:
    if holdfast.patched("bill-first"):
        done = [await do("bill"), await do("ship")]
    else:
        done = [await do("ship")]
    await holdfast.sleep("1s")
    return done if len(done) == 2 else [*done, await do("bill")]


@workflow(name="order")
async def careless() -> list[str]:
    return [await do("bill"), await do("ship")]


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/shop.db") as client:
            old = await client.start(before)
            await Worker(client, workflows=[before]).drive(old.id)
            journal = await client.journal(old.id)
            try:
                replay(journal, careless)  # a deploy, tested against the runs in flight
            except JournalDiverged as error:
                print("careless:", str(error).partition("\n")[0])
            replay(journal, after)
            new = await client.start(after)
            async with Worker(client, workflows=[after]):
                print("old:", await old.result(timeout=30))
                print("new:", await new.result(timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
