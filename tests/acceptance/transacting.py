"""Runs a workflow of transactional steps again and again, killing its process around another commit each time.

`python -m tests.acceptance.transacting URL` prints a line of JSON for each point: where it died, and how processes
ended. The victim kills itself with SIGKILL inside a step, before its COMMIT is sent or after it was answered by the
database; then a second process must bring the run to its end. The user's own table, without any constraint, is the
oracle.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from itertools import count, product
from typing import Any

import asyncpg

from holdfast import AsyncClient, Worker, step, workflow
from holdfast.store.sqlite import loans

STEPS = 3
WHERE = ("inside", "before", "after")
reach: Callable[[str], None] = lambda where: None  # noqa: E731  # replaced in the victim


@step(transaction=True)
def put(db: sqlite3.Connection, name: str, number: int) -> int:
    db.execute("INSERT INTO effects (name, number) VALUES (?, ?)", (name, number))
    # Told of each statement before it is executed: this is the last moment before the COMMIT.
    db.set_trace_callback(lambda text: reach("before") if text == "COMMIT" else None)
    reach("inside")
    return number


@step(transaction=True)
async def put_in_postgres(db: asyncpg.Connection, name: str, number: int) -> int:
    await db.execute("INSERT INTO effects (name, number) VALUES ($1, $2)", name, number)
    reach("inside")
    return number


@workflow
def through_sqlite(name: str) -> list[int]:
    return [put(name, number) for number in range(STEPS)]


@workflow
async def through_postgres(name: str) -> list[int]:
    return [await put_in_postgres(name, number) for number in range(STEPS)]


def watch_commits() -> None:
    """Have `reach` told of commits: the drivers', not ours."""
    commit_in_sqlite, commit_in_postgres = loans.SqliteLoan.commit, asyncpg.transaction.Transaction.commit

    async def sqlite_commit(self: Any, turn: Any, *, now: Any) -> Any:
        answer = await commit_in_sqlite(self, turn, now=now)
        reach("after")
        return answer

    async def postgres_commit(self: Any) -> None:
        reach("before")
        await commit_in_postgres(self)
        reach("after")

    loans.SqliteLoan.commit = sqlite_commit  # type: ignore[method-assign]
    asyncpg.transaction.Transaction.commit = postgres_commit


def dying(where: str, number: int) -> Callable[[str], None]:
    passed = {place: count() for place in WHERE}

    def reached(place: str) -> None:
        if next(passed[place]) == number and place == where:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


async def take_part(url: str, name: str) -> None:
    """Client and worker in one: start the run unless it is there, and see it through."""
    body: Any = through_sqlite if url.startswith("sqlite") else through_postgres
    async with AsyncClient(url) as client, Worker(client, workflows=[body], lease="2s"):
        run = await client.start(body, name, key=name)
        assert await run.result(timeout=60) == list(range(STEPS))


def in_process(url: str, name: str, death: tuple[str, int] | None) -> int:
    """A process of its own; how it ended, as os.waitstatus_to_exitcode says."""
    global reach
    pid = os.fork()
    if pid == 0:
        try:
            if death is not None:
                reach = dying(*death)
                watch_commits()
            asyncio.run(take_part(url, name))
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(url: str) -> None:
    for where, number in product(WHERE, range(STEPS)):
        name = f"{where} {number}"
        codes = [in_process(url, name, (where, number)), in_process(url, name, None)]
        print(json.dumps({"name": name, "codes": codes}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
