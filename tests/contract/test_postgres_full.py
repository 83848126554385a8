"""A Postgres whose files can grow no more, for real: a limit that the operating system holds, as it does a quota.

No file of the server may become longer than this, so that its journal runs into the limit in the middle of work. Its
write-ahead log does not: its files are made in their full length.
"""

import asyncio
import logging
import os

import asyncpg

import holdfast
from holdfast.testing.contract.stage import until
from tests.servers import Postgres

LONGEST = 16 * 1024 * 1024
RESULT = 150_000
RUNS = 40
STEPS = 5
"""Together they don't fit into one file of that length."""


async def test_work_pauses_while_nothing_can_be_written_and_goes_on_without_a_repetition(caplog):
    executed = []

    @holdfast.step
    async def work(number: int) -> bytes:
        executed.append(number)
        # Nothing that the server could make shorter.
        return os.urandom(RESULT)

    @holdfast.workflow
    async def growing(number: int) -> int:
        return sum([len(await work(number * STEPS + place)) for place in range(STEPS)])

    caplog.set_level(logging.WARNING)

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if "away" in record.getMessage()]

    with Postgres(durable=False) as server:
        server.limit_files(LONGEST)
        url = server.create_database()
        async with holdfast.AsyncClient(url) as client, holdfast.Worker(client, workflows=[growing], concurrency=10):
            runs = await client.start_many(growing, [(number,) for number in range(RUNS)])
            assert await until(lambda: bool(told()), 90)
            assert "File too large" in told()[0]
            so_far = len(executed)
            # Longer than the first pauses: it is tried again and again, and said once.
            await asyncio.sleep(2)
            assert len(executed) - so_far <= RUNS
            assert len(told()) <= 4
            server.limit_files(None)
            assert [await run.result(timeout=90) for run in runs] == [STEPS * RESULT] * RUNS
        assert sorted(executed) == list(range(RUNS * STEPS))
        connection = await asyncpg.connect(url)
        assert await connection.fetchval("SELECT count(*) FROM holdfast.runs WHERE status = 'completed'") == RUNS
        await connection.close()
