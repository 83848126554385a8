"""What a transactional step sets on its SQLite connection is its own: the store reads and writes there as ever."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import AsyncClient, Worker, step, workflow
from tests.worker.bookings import booked
from tests.worker.stage import ONCE, stage


def as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


SETTINGS: dict[str, Callable[[sqlite3.Connection], None]] = {
    "rows": lambda db: setattr(db, "row_factory", as_dict),
    "texts": lambda db: setattr(db, "text_factory", bytes),
    "progress": lambda db: db.set_progress_handler(lambda: 1, 1),
}
each_setting = pytest.mark.parametrize("setting", SETTINGS)


@step(transaction=True, retry=ONCE)
def setting_one(db: sqlite3.Connection, setting: str, is_bad: bool) -> None:
    db.execute("CREATE TABLE IF NOT EXISTS bookings (id TEXT)")
    db.execute("INSERT INTO bookings (id) VALUES ('a')")
    SETTINGS[setting](db)
    if is_bad:
        raise LookupError


@workflow
async def order(setting: str, is_bad: bool) -> str:
    try:
        setting_one(setting, is_bad)
    except LookupError:
        return "refused"
    return "booked"


@workflow
async def innocent() -> str:
    return "as ever"


@each_setting
async def test_a_step_that_sets_something_on_its_connection_is_committed(file, setting):
    async with stage(file, order) as s:
        assert await (await s.client.start(order, setting, False)).result(timeout=20) == "booked"
        assert booked(file) == ["a"]


@each_setting
@pytest.mark.parametrize("is_bad", [False, True], ids=["it succeeds", "it fails"])
async def test_what_a_step_sets_on_the_only_connection_is_gone_after_it(setting, is_bad):
    async with AsyncClient("sqlite:///:memory:") as client, Worker(client, workflows=[order, innocent]):
        async with asyncio.timeout(20):
            ended = await (await client.start(order, setting, is_bad)).result()
            assert (ended, await (await client.start(innocent)).result()) == (
                "refused" if is_bad else "booked",
                "as ever",
            )
