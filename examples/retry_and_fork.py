"""Going on after a failure, or going another way from any step: both make a new run and leave the old one as it was.

Look at what is executed: the retry does not fetch again, because that result is recorded. A fork shares the history up
to the step that it names.
"""

import asyncio
import tempfile

from holdfast import AsyncClient, FatalError, RunFailed, Worker, step, workflow

is_mended = False


@step
async def fetch(page: str) -> str:
    print(f"fetch {page}")
    return f"text of {page}"


@step
async def publish(text: str) -> str:
    if not is_mended:
        raise FatalError("the press is broken")
    return f"published: {text}"


@workflow
async def article(page: str) -> str:
    return await publish(await fetch(page))


async def main() -> None:
    global is_mended
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/press.db") as client, Worker(client, workflows=[article]):
            run = await client.start(article, "news")
            try:
                await run.result(timeout=30)
            except RunFailed as error:
                print(error.__cause__)
            is_mended = True
            again = await client.retry(run.id)
            print("retry:", await again.result(timeout=30))
            edited = await client.fork(run.id, at="fetch", result="a better text")
            print("fork with another result:", await edited.result(timeout=30))
            other = await client.fork(run.id, input=("sports",), workflow=article)
            print("fork with another input:", await other.result(timeout=30))
            print("the old run:", (await run.refresh()).status)


if __name__ == "__main__":
    asyncio.run(main())
