"""kill -9 around the commits of transactional steps: the user's rows and the journal agree, one row for each step."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import asyncpg

from tests.acceptance.transacting import STEPS, WHERE
from tests.servers import Databases

ROOT = Path(__file__).parents[2]
TABLE = "CREATE TABLE effects (name text, number integer)"
EFFECTS = "SELECT name, number FROM effects ORDER BY name, number"


def killed_everywhere(url: str) -> None:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    ended = subprocess.run(
        [sys.executable, "-m", "tests.acceptance.transacting", url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    told = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(told) == len(WHERE) * STEPS, ended.stderr
    # Every victim died where it should, and whoever came after it brought the run to its end.
    assert {tuple(one["codes"]) for one in told} == {(-signal.SIGKILL, 0)}, ended.stderr


def once_each() -> list[tuple[str, int]]:
    return sorted((f"{where} {number}", each) for where in WHERE for number in range(STEPS) for each in range(STEPS))


def test_each_transactional_step_writes_once_on_sqlite(tmp_path):
    file = tmp_path / "holdfast.db"
    connection = sqlite3.connect(file)
    connection.execute(TABLE)
    killed_everywhere(f"sqlite:///{file}")
    assert connection.execute(EFFECTS).fetchall() == once_each()
    connection.close()


def test_each_transactional_step_writes_once_on_postgres(postgres: Databases):
    url = postgres.create_database()

    async def execute(statement: str) -> list[tuple[str, int]]:
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    asyncio.run(execute(TABLE))
    killed_everywhere(url)
    assert asyncio.run(execute(EFFECTS)) == once_each()
