# mypy: ignore-errors
"""DBOS Transact.

Workflows are called directly: its queues add a row and a poll to each. Coroutines and a larger pool than the default of
20 were the fastest of what was tried (coroutines or threads, pools of 20, 50 and 100). Tracing and logging are off.
"""

import asyncio
from functools import partial

from dbos import DBOS
from work import URL, four_steps, in_lanes, timed

DBOS(
    config={
        "name": "bench",
        "system_database_url": URL,
        "sys_db_pool_size": 50,
        "enable_otlp": False,
        "log_level": "ERROR",
    }
)
body = four_steps(DBOS.step, DBOS.workflow)
DBOS.launch()
asyncio.run(timed(partial(in_lanes, body)))
DBOS.destroy()
