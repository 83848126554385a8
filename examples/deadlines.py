"""Time limits for a whole run, for one attempt of a step, and for a wait.

Look at the report: its deadline comes while it waits for a signal that nobody sends. Its cleanup still runs, and the
run ends as failed, with DeadlineExceeded.
"""

import asyncio
import tempfile

import holdfast
from holdfast import AsyncClient, Retry, RunFailed, StepTimeout, WaitTimeout, Worker, step, workflow


@step(timeout="0.1s", retry=Retry(attempts=2, initial="0.01s"))
async def ask_the_archive() -> str:
    await asyncio.sleep(60)
    return "an answer"


@step
async def tidy() -> None:
    print("tidied up after the deadline")


@workflow
async def research() -> str:
    try:
        return await ask_the_archive()
    except StepTimeout as error:
        found = f"the archive: {str(error).partition(';')[0]}"
    try:
        await holdfast.wait_for_signal("hint", timeout="0.1s")
    except WaitTimeout:
        found += "; no hint came"
    return found


@workflow(deadline="1d")
async def report() -> None:
    try:
        await holdfast.wait_for_signal("done")
    finally:
        await tidy()


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/desk.db") as client, Worker(client, workflows=[research, report]):
            print(await (await client.start(research)).result(timeout=30))
            run = await client.start(report.options(deadline="3s"))
            try:
                await run.result(timeout=30)
            except RunFailed as error:
                print(type(error.__cause__).__name__)


if __name__ == "__main__":
    asyncio.run(main())
