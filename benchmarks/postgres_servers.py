"""Postgres: databases on our own server, and bare group commit over one connection of the same driver.

The server is the one for tests, started for the measurement with commits that wait for the disk, unless
HOLDFAST_TEST_POSTGRES names another.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Sequence
from typing import Any, TypeAlias, cast
from urllib.parse import urlsplit

import asyncpg

from holdfast.store import open_store
from tests.servers.postgres import GIVEN, Databases, GivenPostgres, Postgres

from .databases import MeasuredStore, Row, answer

Connection: TypeAlias = "asyncpg.Connection[Any]"
SETTINGS = {"shared_buffers": "256MB"}
_ONE = "INSERT INTO journal (run, seq, epoch, at, data) VALUES ($1, $2, $3, $4, $5)"
_ALL = (
    "INSERT INTO journal (run, seq, epoch, at, data) "
    "SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::bigint[], $5::bytea[])"
)


class PostgresDatabases:
    """Databases on one server, which starts with the first of them and ends with `close`."""

    name = "Postgres"
    ways: tuple[str, ...] = ("loop",)
    handed = "thread"

    def __init__(self, *, durable: bool = True) -> None:
        self._durable = durable
        self._server: Databases | None = None

    @property
    def server(self) -> Databases:
        if self._server is None:
            given = os.environ.get(GIVEN)
            self._server = GivenPostgres(given) if given else Postgres(durable=self._durable, settings=SETTINGS)
        return self._server

    async def place(self) -> PostgresDatabase:
        place = PostgresDatabase(await asyncio.to_thread(self.server.create_database), self.server.url)
        store = await place.opened()
        await store.close()
        return place

    async def version(self) -> str:
        """The server's version, in its own words."""
        connection = await asyncpg.connect(self.server.url)
        shown = str(await connection.fetchval("SHOW server_version"))
        await connection.close()
        return shown.partition(" ")[0]

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


class PostgresDatabase:
    """One database. The raw connection is made when first needed."""

    def __init__(self, url: str, server_url: str) -> None:
        self.url = url
        self._server_url = server_url
        self._raw: Connection | None = None

    async def opened(self) -> MeasuredStore:
        store = cast(MeasuredStore, open_store(self.url))
        await store.open()
        return store

    async def ask(self, question: str) -> Sequence[object] | None:
        return cast("Sequence[object] | None", await (await self._watch()).fetchrow(question))

    async def columns(self, table: str) -> list[str]:
        rows = await (await self._watch()).fetch(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'holdfast' AND table_name = $1"
            " ORDER BY ordinal_position",
            table,
        )
        return [row[0] for row in rows]

    async def load(self, statements: Sequence[str]) -> None:
        raw = await self._watch()
        async with raw.transaction():
            await raw.execute("SET LOCAL synchronous_commit = off")
            for statement in statements:
                await raw.execute(statement)

    async def settle(self) -> None:
        raw = await self._watch()
        # The copied rows brought their own numbers, so the next run's must come after them.
        await raw.execute("SELECT setval(pg_get_serial_sequence('runs', 'number'), (SELECT max(number) FROM runs))")
        await raw.execute("VACUUM ANALYZE")
        await raw.execute("CHECKPOINT")

    async def hold(self) -> HeldDatabase:
        connection = await connect(self.url)
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await connection.fetch("SELECT count(*) FROM lanes")
        return HeldDatabase(connection)

    async def writer(self, way: str) -> ConnectionWriter:
        writer = ConnectionWriter(self.url, asyncio.get_running_loop(), is_apart=way == "thread")
        await writer.start()
        return writer

    async def bare(self, way: str, rows: Sequence[Row], batch: int) -> float:
        connection = await connect(self.url)
        began = time.perf_counter()
        for start in range(0, len(rows), batch):
            await insert(connection, rows[start : start + batch])
        took = time.perf_counter() - began
        await connection.close()
        return took

    async def forget(self) -> None:
        if self._raw is not None:
            await self._raw.close()
        connection = await asyncpg.connect(self._server_url)
        await connection.execute(f'DROP DATABASE "{urlsplit(self.url).path[1:]}" WITH (FORCE)')
        await connection.close()

    async def _watch(self) -> Connection:
        if self._raw is None:
            self._raw = await connect(self.url)
        return self._raw


class HeldDatabase:
    """A transaction that was left open."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def close(self) -> None:
        await self._connection.close()


async def connect(url: str) -> Connection:
    """A raw connection that finds Holdfast's tables by their bare names."""
    return await asyncpg.connect(url, server_settings={"search_path": "holdfast"})


async def insert(connection: Connection, rows: Sequence[Row]) -> None:
    """Insert rows in one commit: one statement in its own transaction."""
    if len(rows) == 1:
        await connection.execute(_ONE, *rows[0])
    else:
        await connection.execute(_ALL, *(list(column) for column in zip(*rows, strict=True)))


class ConnectionWriter:
    """One connection that commits whatever is queued, on this event loop or on one in its own thread."""

    def __init__(self, url: str, loop: asyncio.AbstractEventLoop, *, is_apart: bool) -> None:
        self._url = url
        self._home = loop
        self._loop = asyncio.new_event_loop() if is_apart else loop
        self._thread = threading.Thread(target=self._loop.run_forever, name="ceiling-writer", daemon=True)
        self._is_apart = is_apart
        self._queue: list[tuple[Row, asyncio.Future[None]]] = []
        self._work: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if not self._is_apart:
            self._connection = await connect(self._url)
            return
        self._thread.start()
        opening = asyncio.run_coroutine_threadsafe(connect(self._url), self._loop)
        self._connection = await asyncio.wrap_future(opening)

    async def commit(self, row: Row) -> None:
        future: asyncio.Future[None] = self._home.create_future()
        if self._is_apart:
            self._loop.call_soon_threadsafe(self._put, row, future)
        else:
            self._put(row, future)
        await future

    async def stop(self) -> None:
        if not self._is_apart:
            await self._connection.close()
            return
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._connection.close(), self._loop))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _put(self, row: Row, future: asyncio.Future[None]) -> None:
        self._queue.append((row, future))
        if self._work is None:
            self._work = self._loop.create_task(self._write())

    async def _write(self) -> None:
        while self._queue:
            batch, self._queue = self._queue, []
            futures = [future for _, future in batch]
            error: Exception | None = None
            try:
                await insert(self._connection, [row for row, _ in batch])
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as raised:
                error = raised
            if self._is_apart:
                self._home.call_soon_threadsafe(answer, futures, error)
            else:
                answer(futures, error)
        self._work = None
