# mypy: ignore-errors
"""DBOS Transact.

Workflows are called directly: a queue would add a poll between start and run. Tracing and logging are off.
"""

import asyncio
from functools import partial

from dbos import DBOS
from work import POOL, URL, four_steps, in_lanes, timed

DBOS(
    config={
        "name": "bench",
        "system_database_url": URL,
        "sys_db_pool_size": POOL,
        "enable_otlp": False,
        "log_level": "ERROR",
    }
)
body = four_steps(DBOS.step, DBOS.workflow)
DBOS.launch()
asyncio.run(timed(partial(in_lanes, body)))
DBOS.destroy()
