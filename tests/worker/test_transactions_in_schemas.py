"""Transactional steps on Postgres, in a schema that is not called `holdfast`."""

from __future__ import annotations

from typing import Any

from holdfast import AsyncClient, Worker, step, workflow
from tests.servers import Databases


@step(transaction=True)
async def write(db: Any, name: str) -> str:
    await db.execute("CREATE TABLE bookings (id text)")
    await db.execute("INSERT INTO bookings VALUES ($1)", name)
    return str(await db.fetchval("SELECT id FROM bookings"))


@workflow
async def writing(name: str) -> str:
    return await write(name)


async def test_a_transactional_step_takes_effect_in_whichever_schema_the_runs_are(postgres: Databases):
    async with (
        AsyncClient(postgres.create_database(), schema="tenant_7") as client,
        Worker(client, workflows=[writing]),
    ):
        run = await client.start(writing, "a")
        assert await run.result(timeout=60) == "a"
