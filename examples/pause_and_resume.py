"""Pausing runs, one or many: no turn is taken until they are resumed.

Look at the paused run: its timer is over and its signal has come, but it does not move. And look at pausing many by a
filter: they are counted first.
"""

import asyncio
import tempfile

import holdfast
from holdfast import AsyncClient, RunEnded, RunFilter, Worker, workflow


@workflow
async def campaign(city: str) -> str:
    await holdfast.sleep("0.1s")
    return f"{city}: {await holdfast.wait_for_signal('go', type=str)}"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/ads.db") as client, Worker(client, workflows=[campaign]):
            tagged = campaign.options(tags={"region": "north"})
            runs = [await client.start(tagged, "Oslo"), await client.start(tagged, "Turku")]
            south = await client.start(campaign, "Rome")
            for run in runs:
                async for status in run.changes():
                    if status == "waiting":
                        break
            north = RunFilter(workflow=campaign, tags={"region": "north"}, status=("pending", "running", "waiting"))
            print("to pause:", await client.count(north), "paused:", await client.pause(north))
            for run in (*runs, south):
                await run.signal("go", "sent")
            print(await south.result(timeout=30))
            print("still:", (await runs[0].refresh()).status, "|", (await client.explain(runs[0].id)).reason)
            print("resumed:", await client.resume(north))
            for run in runs:
                print(await run.result(timeout=30))
            try:
                await client.pause(south.id)
            except RunEnded:
                print("an ended run can't be paused")


if __name__ == "__main__":
    asyncio.run(main())
