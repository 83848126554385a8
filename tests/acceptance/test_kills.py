"""kill -9 in a loop, against several worker processes and a client, on every store; Postgres is restarted meanwhile.

The effects files are the oracle. HOLDFAST_KILL_SECONDS sets how long it goes on, HOLDFAST_KILL_SEED repeats the dice.
`make soak` is the same for as long as asked.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.acceptance.stage import Stage
from tests.servers import Postgres
from tests.soak.trouble import Trouble

SECONDS = float(os.environ.get("HOLDFAST_KILL_SECONDS", "12"))
pytestmark = pytest.mark.timeout(SECONDS + 240)


def test_runs_on_sqlite_survive_any_number_of_kills(stage: Stage):
    assert wrongs_after(Trouble(stage, dice())) == []


def test_runs_on_postgres_survive_any_number_of_kills_and_restarts_of_the_server(tmp_path: Path, server: Postgres):
    stage = Stage(tmp_path, server.create_database())
    try:
        assert wrongs_after(Trouble(stage, dice(), server=server)) == []
    finally:
        stage.close()


def dice() -> random.Random:
    seed = int(os.environ.get("HOLDFAST_KILL_SEED", random.randrange(1_000_000)))
    print(f"HOLDFAST_KILL_SEED={seed}")
    return random.Random(seed)


def wrongs_after(trouble: Trouble) -> list[str]:
    """What is not as it should be when trouble has been made; all of it is printed, for a diff would cut it short."""
    trouble.make(SECONDS)
    trouble.check()
    print(dict(trouble.done), *trouble.found, sep="\n")
    return trouble.found
