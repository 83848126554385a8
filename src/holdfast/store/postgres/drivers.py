"""Callers' own connections: one `execute` for every driver that speaks to Postgres.

Drivers are told apart by the modules that their classes come from, so none is imported here. For a blocking driver
`execute` is a coroutine function that never suspends. Statements have their parameters as asyncpg reads them ($1); for
other drivers each is translated once.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import lru_cache
from types import TracebackType
from typing import Any, Protocol

from holdfast.errors import DefinitionError
from holdfast.store.callers import django_connection, is_session, root_of

from .transactions import Row

_NUMBERED = re.compile(r"\$(\d+)")
_IDLE = 0
"""libpq's number for a connection that is in no transaction, and for one that is in no pipeline."""
_TEXT = 25
"""Postgres's number of the type `text`."""
_UNSTREAMED = {"stream_results": False, "yield_per": None}
"""Options of SQLAlchemy's. A caller's connection may stream its results, by cursors that statements that write can't
have."""
_EXPECTED = (
    "expected a connection of asyncpg or psycopg 3, a Connection or Session of SQLAlchemy 2 over one of those, or"
    " Django's connection over psycopg 3"
)


class Driver(Protocol):
    """One connection of a caller."""

    is_async: bool

    async def execute(self, text: str, values: Sequence[Any]) -> Sequence[Row]:
        """The rows of a statement."""

    def scope(self) -> AbstractAsyncContextManager[Any]:
        """A transaction of our own if the connection is in none and commits each statement by itself; else nothing."""


def driver_of(connection: Any) -> Driver:
    """The driver of a connection. Raises DefinitionError for anything else, and for connections to other databases."""
    root = root_of(connection)
    if root == "asyncpg" and hasattr(connection, "is_in_transaction"):
        return _Asyncpg(connection)
    if root == "psycopg" and hasattr(connection, "cursor"):
        return _Psycopg(connection, is_async=inspect.iscoroutinefunction(connection.execute))
    if root == "sqlalchemy":
        return _alchemy(connection)
    if root == "django":
        return driver_of(django_connection(connection, "postgresql"))
    raise DefinitionError(f"connection={connection!r} can't be used with a Postgres store; {_EXPECTED}")


@lru_cache(maxsize=256)
def percented(text: str, raw: frozenset[int] = frozenset()) -> tuple[str, tuple[int, ...]]:
    """A statement with %s for its parameters, or %b for those that are sent raw, and which parameter goes where."""
    order = tuple(int(number) - 1 for number in _NUMBERED.findall(text))
    places = iter(order)
    return _NUMBERED.sub(lambda _: "%b" if next(places) in raw else "%s", text.replace("%", "%%")), order


def _placed(text: str, values: Sequence[Any]) -> tuple[str, tuple[Any, ...] | None]:
    if not values:
        # Without parameters the driver takes per cent signs as they are, so they must not be doubled.
        return text, None
    # Arrays of bytes go raw: where the server takes backslashes for escapes, psycopg escapes them once too often.
    raw = frozenset(place for place, value in enumerate(values) if _has_bytes(value))
    text, order = percented(text, raw)
    return text, tuple(values[place] for place in order)


def _has_bytes(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, bytes) for one in value)


class _Asyncpg:
    is_async = True

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def execute(self, text: str, values: Sequence[Any]) -> Sequence[Row]:
        rows: Sequence[Row] = await self._connection.fetch(text, *values)
        return rows

    def scope(self) -> AbstractAsyncContextManager[Any]:
        if self._connection.is_in_transaction():
            return contextlib.nullcontext()
        scope: AbstractAsyncContextManager[Any] = self._connection.transaction()
        return scope


class _Psycopg:
    def __init__(self, connection: Any, *, is_async: bool) -> None:
        self._connection = connection
        self.is_async = is_async
        # The plain cursor class, with a row factory of our own: the connection's own cursors may read other
        # placeholders, and its rows may be dicts or whatever its owner likes.
        driver = sys.modules["psycopg"]
        self._cursor = driver.AsyncCursor if is_async else driver.Cursor

    async def execute(self, text: str, values: Sequence[Any]) -> Sequence[Row]:
        text, given = _placed(text, values)
        if self.is_async:
            async with self._cursor(self._connection, row_factory=_tuples) as cursor:
                async with self._synced():
                    await cursor.execute(text, given)
                return _read(cursor, await cursor.fetchall()) if cursor.description else ()
        with self._cursor(self._connection, row_factory=_tuples) as cursor:
            with self._synced():
                cursor.execute(text, given)
            return _read(cursor, cursor.fetchall()) if cursor.description else ()

    def scope(self) -> AbstractAsyncContextManager[Any]:
        if not self._connection.autocommit or (not self._is_piped() and self._is_begun()):
            return contextlib.nullcontext()
        # In a pipeline only the driver can tell whether it is in a transaction. If it is, it makes this a savepoint.
        scope = self._connection.transaction()
        return scope if self.is_async else _Blocking(scope)

    def _synced(self) -> Any:
        """Wait for the caller's pipeline, if there is one: until then it gives out no rows, nor whether there are
        any."""
        return self._connection.pipeline() if self._is_piped() else contextlib.nullcontext()

    def _is_piped(self) -> bool:
        return int(self._connection.info.pipeline_status) != _IDLE

    def _is_begun(self) -> bool:
        return int(self._connection.info.transaction_status) != _IDLE


def _read(cursor: Any, rows: Sequence[Row]) -> Sequence[Row]:
    """Rows with text as `str`: from a database without an encoding psycopg gives it out as bytes."""
    texts = {place for place, column in enumerate(cursor.description) if column[1] == _TEXT}
    return [
        tuple(
            value.decode() if place in texts and isinstance(value, bytes) else value for place, value in enumerate(row)
        )
        for row in rows
    ]


def _tuples(_cursor: Any) -> type[tuple[Any, ...]]:
    return tuple


class _Blocking:
    """A blocking context manager as an async one."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aenter__(self) -> Any:
        return self._inner.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        told: bool | None = self._inner.__exit__(kind, error, trace)
        return told


def _alchemy(connection: Any) -> Driver:
    is_a_session = is_session(connection)
    if not is_a_session and not hasattr(connection, "exec_driver_sql"):
        raise DefinitionError(
            f"connection={connection!r} is no connection; {_EXPECTED}: `with engine.begin() as conn:`"
        )
    dialect = (connection.get_bind() if is_a_session else connection).dialect
    if dialect.name != "postgresql" or dialect.driver not in ("psycopg", "psycopg_async", "asyncpg"):
        raise DefinitionError(
            f"connection={connection!r} is one of {dialect.name}+{dialect.driver}, and this store is in Postgres;"
            f" {_EXPECTED}"
        )
    kind = (
        _AsyncAlchemy
        if inspect.iscoroutinefunction(connection.connection if is_a_session else connection.exec_driver_sql)
        else _Alchemy
    )
    return kind(connection, is_a_session, is_numbered=dialect.driver == "asyncpg")


class _Alchemy:
    """SQLAlchemy. It begins a transaction by itself with the first statement, unless it was told to autocommit."""

    is_async = False

    def __init__(self, connection: Any, is_a_session: bool, *, is_numbered: bool) -> None:
        self._connection = connection
        self._is_session = is_a_session
        self._is_numbered = is_numbered

    async def execute(self, text: str, values: Sequence[Any]) -> Sequence[Row]:
        return _rows(self._own().exec_driver_sql(*self._given(text, values), execution_options=_UNSTREAMED))

    def _own(self) -> Any:
        return self._connection.connection() if self._is_session else self._connection

    def _given(self, text: str, values: Sequence[Any]) -> tuple[Any, ...]:
        if self._is_numbered:
            return (text, tuple(values)) if values else (text,)
        text, given = _placed(text, values)
        return (text,) if given is None else (text, given)

    @contextlib.asynccontextmanager
    async def scope(self) -> AsyncIterator[None]:
        async with _scope_of(self._own().connection):
            yield


class _AsyncAlchemy(_Alchemy):
    is_async = True

    async def execute(self, text: str, values: Sequence[Any]) -> Sequence[Row]:
        connection = await self._connection.connection() if self._is_session else self._connection
        return _rows(await connection.exec_driver_sql(*self._given(text, values), execution_options=_UNSTREAMED))

    @contextlib.asynccontextmanager
    async def scope(self) -> AsyncIterator[None]:
        connection = await self._connection.connection() if self._is_session else self._connection
        async with _scope_of(await connection.get_raw_connection()):
            yield


def _scope_of(pooled: Any) -> AbstractAsyncContextManager[Any]:
    """A transaction of the driver's, if SQLAlchemy was told to autocommit."""
    if not pooled.dbapi_connection.autocommit:
        return contextlib.nullcontext()
    return driver_of(pooled.driver_connection).scope()


def _rows(result: Any) -> Sequence[Row]:
    return result.fetchall() if result.returns_rows else ()
