"""Watching a run from outside: values that it sets, and streams that it adds to.

Look at the reset: the first attempt of the step failed after two words, and the second begins to send again. A follower
drops what the earlier attempt sent. And look at the second follower, which begins where the first one stopped.
"""

import asyncio
import tempfile

import holdfast
from holdfast import AsyncClient, Retry, Worker, current_step, emit, set_value, step, workflow


@step(retry=Retry(attempts=2, initial="0.01s"))
async def write() -> str:
    words = ["once", "upon", "a", "time"]
    for count, word in enumerate(words, 1):
        if count == 3 and current_step().attempt == 1:
            raise ConnectionError("the line went dead")
        emit("words", word)  # visible at once, long before the step ends
        set_value("progress", count / len(words))
    return " ".join(words)


@workflow
async def story() -> str:
    set_value("phase", "writing")
    text = await write()
    set_value("phase", "done")
    await holdfast.sleep("0.1s")
    return text


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/story.db") as client, Worker(client, workflows=[story]):
            run = await client.start(story)
            seen: list[str] = []
            offset = 0
            async for item in run.stream("words", type=str):
                if item.reset:
                    print("dropped:", seen)
                    seen.clear()
                seen.append(item.value)
                if item.value == "a":
                    offset = item.offset
            print("read:", seen)
            print("after the third word:", [item.value async for item in run.stream("words", after=offset)])
            print(await run.value("phase"), await run.value("progress"), await run.value("title", default="untitled"))


if __name__ == "__main__":
    asyncio.run(main())
