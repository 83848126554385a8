"""Fan out over many items: a step for each or a child run for each, with results in the order of the items.

Look at the number of journal entries: ten thousand items need a few hundred, because a chunk of items is one step.
Three hundred child runs need only a few more, because a chunk of them is a run of its own.
"""

import asyncio
import tempfile

import holdfast
from holdfast import AsyncClient, Retry, RunFilter, Worker, step, workflow


@step
def square(number: int) -> int:
    return number * number


@step(retry=Retry(attempts=2, initial="0.01s"))
async def fetch(page: int) -> str:
    if page == 2:
        raise LookupError("no such page")
    return f"page {page}"


@workflow
async def draw(number: int) -> int:
    return square(number)


@workflow
async def work() -> str:
    squares = await holdfast.map(square, range(10_000), concurrency=4)
    pages = await holdfast.map(fetch, [1, 2, 3], on_error="collect")
    found = [page if isinstance(page, str) else f"{page.type}: {page.message}" for page in pages]
    drawn = await holdfast.map(draw, range(300))  # a child run for each, in three chunks
    return f"{sum(squares)}; {found}; {sum(drawn)}"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/work.db") as client, Worker(client, workflows=[work, draw]):
            run = await client.start(work)
            print(await run.result(timeout=60))
            print("fewer than 1000 entries:", len(await client.journal(run.id)) < 1000)
            chunks = [chunk.id async for chunk in client.runs(RunFilter(parent=run.id))]
            print("runs between this one and its 300 children:", len(chunks))


if __name__ == "__main__":
    asyncio.run(main())
