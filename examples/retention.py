"""How long ended runs are kept, and how to get rid of them: delete, prune, archive.

Look at what is refused: a live run is never deleted. And look at the archive: a line of JSON for each run, with its
journal.
"""

import asyncio
import json
import tempfile
from pathlib import Path

import holdfast
from holdfast import AsyncClient, DefinitionError, RunFilter, Worker, workflow


@workflow(retention="90d")  # kept so long after its end; the default is 30 days, None is for ever
async def invoice(number: int) -> int:
    return number


@workflow
async def subscription() -> None:
    await holdfast.sleep("365d")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/books.db") as client:
            async with Worker(client, workflows=[invoice, subscription]):
                runs = await client.start_many(invoice, [(number,) for number in range(5)])
                short = await client.start(invoice.options(retention="7d"), 5)
                for run in (*runs, short):
                    await run.result(timeout=30)
                live = await client.start(subscription)
            try:
                await client.delete(live.id)
            except DefinitionError as error:
                print("refused:", str(error).partition(": ")[2])
            print("deleted:", await client.delete(runs[0].id))
            ended = RunFilter(workflow=invoice)
            print("to prune:", await client.count(ended))
            archive = Path(folder) / "invoices.jsonl"
            pruned = await client.prune(older_than=0, where=ended, archive=archive)
            lines = [json.loads(line) for line in archive.read_text().splitlines()]
            print("pruned:", pruned.runs, "archived:", len(lines), "first entry:", lines[0]["journal"][0]["kind"])
            print("left:", [run.workflow async for run in client.runs()])


if __name__ == "__main__":
    asyncio.run(main())
