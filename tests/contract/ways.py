"""Ways to bring a connection of one's own: each begins a transaction, writes a row of its own table and does something.

A way is a function that is given a url, what to do inside the transaction, and whether to commit at its end. The table
`orders` is the caller's.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import asyncpg
import django
import psycopg
from django.conf import settings
from django.db import connections as django_connections
from django.db import transaction as django_transaction
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

Inside: TypeAlias = Callable[[Any], Any]
AsyncInside: TypeAlias = Callable[[Any], Awaitable[Any]]
INSERT = "INSERT INTO orders (id) VALUES (1)"


async def is_heard(event: asyncio.Event) -> bool:
    """Whether it is told, within more time than it ever takes."""
    try:
        await asyncio.wait_for(event.wait(), 10)
    except TimeoutError:
        return False
    return True


class Undo(Exception):
    """Raised to roll back."""


def plain_psycopg(url: str, inside: Inside, is_kept: bool) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(INSERT)
        inside(connection)
        if not is_kept:
            connection.rollback()


def autocommitting_psycopg(url: str, inside: Inside, is_kept: bool) -> None:
    """In autocommit mode, inside `transaction()`, with rows that are dicts."""
    opened = psycopg.connect(url, autocommit=True, row_factory=psycopg.rows.dict_row)
    with opened as connection, connection.transaction():
        connection.execute(INSERT)
        inside(connection)
        if not is_kept:
            raise psycopg.Rollback


def raw_psycopg(url: str, inside: Inside, is_kept: bool) -> None:
    """With cursors that read Postgres's own placeholders, and text that comes as bytes for want of an encoding."""
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor, client_encoding="sql_ascii") as connection:
        connection.execute(INSERT)
        inside(connection)
        if not is_kept:
            connection.rollback()


def piped_psycopg(url: str, inside: Inside, is_kept: bool) -> None:
    """In a pipeline, which answers nothing before it is asked to."""
    with psycopg.connect(url, autocommit=True) as connection, connection.pipeline(), connection.transaction():
        connection.execute(INSERT)
        inside(connection)
        if not is_kept:
            raise psycopg.Rollback


def alchemy(url: str, inside: Inside, is_kept: bool) -> None:
    engine = create_engine(alchemy_url(url, "psycopg"))
    with engine.connect() as connection:
        # The start comes first: it makes the transaction begin.
        inside(connection)
        connection.execute(text(INSERT))
        connection.commit() if is_kept else connection.rollback()
    engine.dispose()


def alchemy_session(url: str, inside: Inside, is_kept: bool) -> None:
    engine = create_engine(alchemy_url(url, "psycopg"))
    with Session(engine) as session:
        inside(session)
        session.execute(text(INSERT))
        session.commit() if is_kept else session.rollback()
    engine.dispose()


def through_django(url: str, inside: Inside, is_kept: bool) -> None:
    connection = _django(url)
    try:
        with django_transaction.atomic(using="default"), connection.cursor() as cursor:
            cursor.execute(INSERT)
            inside(connection)
            if not is_kept:
                django_transaction.set_rollback(True)
    finally:
        connection.close()


def a_cursor_of_django(url: str, inside: Inside, is_kept: bool) -> None:
    connection = _django(url)
    try:
        with django_transaction.atomic(using="default"), connection.cursor() as cursor:
            cursor.execute(INSERT)
            inside(cursor)
            if not is_kept:
                django_transaction.set_rollback(True)
    finally:
        connection.close()


def plain_sqlite(url: str, inside: Inside, is_kept: bool) -> None:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    try:
        connection.execute(INSERT)
        inside(connection)
        connection.commit() if is_kept else connection.rollback()
    finally:
        connection.close()


def sqlite_before_its_first_write(url: str, inside: Inside, is_kept: bool) -> None:
    """The start begins the transaction; rows are made into something else than tuples."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    connection.row_factory = lambda _cursor, row: {"row": row}
    try:
        inside(connection)
        connection.execute(INSERT)
        connection.commit() if is_kept else connection.rollback()
    finally:
        connection.close()


def sqlite_with_texts_of_bytes(url: str, inside: Inside, is_kept: bool) -> None:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    connection.text_factory = bytes
    try:
        connection.execute(INSERT)
        inside(connection)
        assert connection.text_factory is bytes
        connection.commit() if is_kept else connection.rollback()
    finally:
        connection.close()


def sqlite_by_hand(url: str, inside: Inside, is_kept: bool) -> None:
    """With transactions begun and ended by SQL."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    try:
        connection.execute("BEGIN")
        connection.execute(INSERT)
        inside(connection)
        connection.execute("COMMIT" if is_kept else "ROLLBACK")
    finally:
        connection.close()


async def plain_asyncpg(url: str, inside: AsyncInside, is_kept: bool) -> None:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute(INSERT)
            await inside(connection)
            if not is_kept:
                raise Undo
    except Undo:
        pass
    finally:
        await connection.close()


async def a_pool_of_asyncpg(url: str, inside: AsyncInside, is_kept: bool) -> None:
    try:
        made = asyncpg.create_pool(url, min_size=1, max_size=1)
        async with made as pool, pool.acquire() as connection, connection.transaction():
            await connection.execute(INSERT)
            await inside(connection)
            if not is_kept:
                raise Undo
    except Undo:
        pass


async def async_psycopg(url: str, inside: AsyncInside, is_kept: bool) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(INSERT)
        await inside(connection)
        if not is_kept:
            await connection.rollback()


async def raw_async_psycopg(url: str, inside: AsyncInside, is_kept: bool) -> None:
    """With cursors that read Postgres's own placeholders, in a pipeline."""
    opened = await psycopg.AsyncConnection.connect(url, cursor_factory=psycopg.AsyncRawCursor)
    async with opened as connection, connection.pipeline():
        await connection.execute(INSERT)
        await inside(connection)
        if not is_kept:
            await connection.rollback()


async def async_alchemy(url: str, inside: AsyncInside, is_kept: bool) -> None:
    await _async_alchemy(url, inside, is_kept, "asyncpg")


async def async_alchemy_over_psycopg(url: str, inside: AsyncInside, is_kept: bool) -> None:
    await _async_alchemy(url, inside, is_kept, "psycopg")


async def _async_alchemy(url: str, inside: AsyncInside, is_kept: bool, driver: str) -> None:
    engine = create_async_engine(alchemy_url(url, driver, "aiosqlite"))
    async with engine.connect() as connection:
        await inside(connection)
        await connection.execute(text(INSERT))
        await connection.commit() if is_kept else await connection.rollback()
    await engine.dispose()


async def async_session(url: str, inside: AsyncInside, is_kept: bool) -> None:
    engine = create_async_engine(alchemy_url(url, "asyncpg", "aiosqlite"))
    async with AsyncSession(engine) as session:
        await inside(session)
        await session.execute(text(INSERT))
        await session.commit() if is_kept else await session.rollback()
    await engine.dispose()


POSTGRES = [
    plain_psycopg,
    autocommitting_psycopg,
    raw_psycopg,
    piped_psycopg,
    alchemy,
    alchemy_session,
    through_django,
    a_cursor_of_django,
]
ASYNC_POSTGRES = [
    plain_asyncpg,
    a_pool_of_asyncpg,
    async_psycopg,
    raw_async_psycopg,
    async_alchemy,
    async_alchemy_over_psycopg,
    async_session,
]
SQLITE = [
    plain_sqlite,
    sqlite_before_its_first_write,
    sqlite_with_texts_of_bytes,
    sqlite_by_hand,
    alchemy,
    alchemy_session,
    through_django,
    a_cursor_of_django,
]
ASYNC_SQLITE = [async_alchemy, async_session]


def make_table(url: str) -> None:
    """The caller's own table."""
    _execute(url, "CREATE TABLE orders (id integer)")


def orders(url: str) -> int:
    """How many rows the caller has written."""
    return int(_execute(url, "SELECT count(*) FROM orders")[0][0])


def messages(url: str) -> int:
    """How many messages others can see in inboxes."""
    inbox = "inbox" if url.startswith("sqlite") else "holdfast.inbox"
    return int(_execute(url, f"SELECT count(*) FROM {inbox}")[0][0])


def events(url: str) -> int:
    """How many events others can see."""
    kept = "events" if url.startswith("sqlite") else "holdfast.events"
    return int(_execute(url, f"SELECT count(*) FROM {kept}")[0][0])


def _execute(url: str, statement: str) -> list[Any]:
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        try:
            rows = connection.execute(statement).fetchall()
            connection.commit()
            return rows
        finally:
            connection.close()
    with psycopg.connect(url) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def alchemy_url(url: str, driver: str, sqlite_driver: str = "") -> str:
    """The address as SQLAlchemy reads it, with a driver for Postgres and maybe one for SQLite."""
    if url.startswith("sqlite"):
        return url.replace("sqlite", f"sqlite+{sqlite_driver}") if sqlite_driver else url
    return url.replace("postgresql", f"postgresql+{driver}")


def _django(url: str) -> Any:
    """Django's connection to that database."""
    if not settings.configured:
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.dummy"}}, USE_TZ=True)
        django.setup()
    if url.startswith("sqlite"):
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": url.removeprefix("sqlite:///")}
    else:
        info = psycopg.conninfo.conninfo_to_dict(url)
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": info["dbname"],
            "USER": info.get("user", ""),
            "PASSWORD": info.get("password", ""),
            "HOST": info.get("host", ""),
            "PORT": info.get("port", ""),
        }
    django_connections.databases["default"] = {**django_connections.databases["default"], **database}
    if hasattr(django_connections._connections, "default"):
        del django_connections["default"]
    return django_connections["default"]
