"""A run that goes on for ever, without a journal that grows for ever: it ends and begins afresh with what it knows.

Look at the counts: the meter takes nine readings in runs of three. Signals that one run has not read reach the next,
and whoever waits for the first run gets the result of the last.
"""

import asyncio
import tempfile

import holdfast
from holdfast import AsyncClient, RunFilter, Worker, workflow


@workflow
async def meter(total: int) -> int:
    for _ in range(3):
        reading = await holdfast.wait_for_signal("reading", type=int)
        if reading == 0:
            return total
        total += reading
    meter.continue_as_new(total)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/meter.db") as client, Worker(client, workflows=[meter]):
            first = await client.start(meter, 0, key="meter-1")
            for reading in (5, 1, 4, 2, 3, 1, 2, 2, 0):
                await first.signal("reading", reading)
            print("total:", await first.result(timeout=30))
            async for run in client.runs(RunFilter(workflow=meter)):
                print(run.status, "with", len(await client.journal(run.id)), "entries")
            last = await client.get_run(meter, key="meter-1")
            print("the key is with the last run:", last.id != first.id, last.status)


if __name__ == "__main__":
    asyncio.run(main())
