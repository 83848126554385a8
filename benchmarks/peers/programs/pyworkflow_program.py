# mypy: ignore-errors
"""pyworkflow-engine.

With its local runtime, which executes steps in this process: a broker would only add to their cost. Runs are durable,
in its Postgres storage; `start` returns when the run has ended. Logging is off.

Its migrations fail in an empty database, since one of them changes a table that a later one creates. No run here uses
that table (it is for streams), so it is created beforehand with the columns that are indexed.
"""

import asyncio
from functools import partial

import asyncpg
from loguru import logger
from pyworkflow import configure, start, step, workflow
from pyworkflow.storage.postgres import PostgresStorageBackend
from work import POOL, URL, four_steps, in_lanes, timed

MISSING = "CREATE TABLE stream_subscriptions (stream_id TEXT, status TEXT)"


async def main():
    logger.remove()
    connection = await asyncpg.connect(URL)
    await connection.execute(MISSING)
    await connection.close()
    storage = PostgresStorageBackend(dsn=URL, min_pool_size=POOL, max_pool_size=POOL)
    await storage.connect()
    configure(storage=storage, default_runtime="local", default_durable=True)
    body = four_steps(step, partial(workflow, durable=True))
    await timed(partial(in_lanes, partial(start, body)))
    await storage.disconnect()


asyncio.run(main())
