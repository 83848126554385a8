"""What steps share, and what wraps each of them.

Arguments are stored, so a connection can't be one. A resource is opened when the worker starts and closed when it ends;
a step gets it by calling it. Middleware is a context manager around every attempt of every step.
"""

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Iterator

from holdfast import AsyncClient, Worker, current_step, resource, step, workflow
from holdfast.define import StepInfo


@resource
def shop() -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        connection.execute("CREATE TABLE sales (id TEXT PRIMARY KEY, item TEXT)")
        yield connection
    print("the shop is closed")


@contextlib.contextmanager
def timed(info: StepInfo) -> Iterator[None]:
    began = time.monotonic()
    try:
        yield
    finally:
        print(f"{info.workflow}: {info.key} took {1000 * (time.monotonic() - began):.1f} ms")


@step
def sell(item: str) -> int:
    # The key is the same in every attempt, so a sale is entered once, however often the step is tried.
    shop().execute("INSERT OR IGNORE INTO sales VALUES (?, ?)", (current_step().idempotency_key, item))
    (sold,) = shop().execute("SELECT count(*) FROM sales").fetchone()
    return int(sold)


@workflow
async def day(items: list[str]) -> int:
    return [sell(item) for item in items][-1]


async def main() -> None:
    async with AsyncClient() as client, Worker(client, workflows=[day], resources=[shop], middleware=[timed]):
        run = await client.start(day, ["tea", "cake", "tea"])
        print(f"sold {await run.result(timeout=30)} items")


if __name__ == "__main__":
    asyncio.run(main())
