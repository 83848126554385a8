"""The store inside a caller's own transaction, on the caller's own thread or task.

The store need not be open, and is not opened here: to open it may need the write lock, which the caller may hold. If
the caller is in no transaction, one is begun that may write from the start, so that what it reads still holds when it
writes. It is left open for the caller to commit, unless the connection commits each statement by itself.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from holdfast.errors import DefinitionError, StoreError
from holdfast.model import (
    Instant,
    JournalRow,
    NewRun,
    RunRecord,
    StartedRun,
    WorkflowCount,
    WorkflowVersion,
)
from holdfast.store.callers import django_connection, is_session, root_of
from holdfast.store.schemas import refuse_newer
from holdfast.store.stats import Stats

from . import runs, starts, workflows
from .connections import MEMORY
from .messaging import Messaging
from .migrations import migrations
from .statements import SQL
from .transactions import Clock, Transaction

T = TypeVar("T")
_EXPECTED = "expected a sqlite3.Connection, a Connection or Session of SQLAlchemy 2 over SQLite, or Django's connection"
_MAIN = 2


class Home(NamedTuple):
    """The store that a guest belongs to."""

    path: str
    namespace: str
    stats: Stats
    clock: Clock
    max_retention: int | None
    own: Callable[[], sqlite3.Connection | None]
    """The only connection to a database in memory, while the store has lent it out; else None."""


class _Executes(Protocol):
    """What a transaction needs of a connection."""

    def execute(self, text: str, values: Sequence[Any] = (), /) -> Any: ...


class SqliteGuest(Messaging):
    """The store on one connection of a caller."""

    needs_open = False

    def __init__(self, home: Home, connection: Any) -> None:
        self._home = home
        self._connection = connection
        root = root_of(connection)
        if root == "django":
            connection = django_connection(connection, "sqlite")
            root = root_of(connection)
        self._inner = connection
        self._is_alchemy = root == "sqlalchemy"
        self.is_async = self._is_alchemy and _checked_alchemy(connection)
        if root not in ("sqlite3", "sqlalchemy"):
            raise DefinitionError(f"connection={connection!r} can't be used with a SQLite store; {_EXPECTED}")

    async def read_clock(self) -> Instant:
        return self._home.clock()

    async def start_runs(self, runs: Sequence[NewRun], *, now: Instant | None = None) -> list[StartedRun]:
        return await self._write(partial(starts.start_runs, runs=runs, now=now))

    async def get_run(self, run_id: str) -> RunRecord | None:
        return await self._read(partial(runs.get_run, run_id=run_id))

    async def find_run(self, workflow: str, key: str) -> RunRecord | None:
        return await self._read(partial(runs.find_run, workflow=workflow, key=key))

    async def read_journal(self, run_id: str) -> list[JournalRow]:
        return await self._read(partial(runs.read_journal, run_id=run_id))

    async def list_versions(self, workflow: str | None = None, *, now: Instant | None = None) -> list[WorkflowVersion]:
        return await self._read(partial(workflows.list_versions, workflow=workflow, now=now))

    async def list_workflows(self) -> list[WorkflowCount]:
        return await self._read(workflows.list_workflows)

    async def _read(self, deed: Callable[[Transaction], T]) -> T:
        return await self._write(deed)

    async def _write(self, deed: Callable[[Transaction], T]) -> T:
        if not self._is_alchemy:
            with _reading_texts(self._inner):
                return self._on(_Plain(self._inner), self._inner, deed)
        connection = self._inner
        if is_session(connection):
            connection = await connection.connection() if self.is_async else connection.connection()
        if not self.is_async:
            return self._through(connection, deed)
        done: T = await connection.run_sync(self._through, deed)
        return done

    def _through(self, connection: Any, deed: Callable[[Transaction], T]) -> T:
        """Execute through SQLAlchemy, which would not know otherwise that there is something to commit."""
        through = _Alchemy(connection)
        # The first statement makes SQLAlchemy begin its transaction, as for any other caller.
        through.execute(SQL["has_migrations"])
        return self._on(through, connection.connection.driver_connection, deed)

    def _on(self, connection: _Executes, state: Any, deed: Callable[[Transaction], T]) -> T:
        with _writing(connection, state):
            namespace_id = self._checked(connection, state)
            tx = Transaction(
                cast(sqlite3.Connection, connection),
                self._home.stats,
                self._home.clock,
                namespace_id,
                self._home.max_retention,
            )
            return deed(tx)

    def _checked(self, connection: _Executes, state: Any) -> int:
        """The namespace's number. Refuses a connection to another file, and a schema that does not fit."""
        home = self._home
        if not self._is_ours(connection, state):
            raise DefinitionError(
                f"connection={self._connection!r} is not one to this client's database, {home.path}; connect to that"
                " file, or make a client for the other"
            )
        newest = migrations()[-1][0]
        [(is_there,)] = connection.execute(SQL["has_migrations"]).fetchall()
        applied = connection.execute(SQL["last_migration"]).fetchall()[0][0] if is_there else 0
        refuse_newer(applied, newest, home.path)
        if applied < newest:
            raise StoreError(
                f"{home.path}: its schema is number {applied}, and this Holdfast needs {newest}; open the client before"
                " the transaction begins, or run `holdfast migrate`"
            )
        name = SQL.statement("find_namespace")
        values = name.values({"name": home.namespace})
        found = connection.execute(name.text, values).fetchall()
        if not found:
            made = SQL.statement("insert_namespace")
            connection.execute(made.text, made.values({"name": home.namespace}))
            found = connection.execute(name.text, values).fetchall()
        return int(found[0][0])

    def _is_ours(self, connection: _Executes, state: Any) -> bool:
        if self._home.path == MEMORY:
            return state is not None and state is self._home.own()
        [file] = [row[_MAIN] for row in connection.execute(SQL["list_files"]).fetchall() if row[1] == "main"]
        try:
            return os.path.samefile(file, self._home.path)
        except OSError:
            return False


def _checked_alchemy(connection: Any) -> bool:
    """Whether SQLAlchemy's connection has to be awaited. Refuses one to another kind of database."""
    is_a_session = is_session(connection)
    if not is_a_session and not hasattr(connection, "exec_driver_sql"):
        raise DefinitionError(
            f"connection={connection!r} is no connection; {_EXPECTED}: `with engine.begin() as conn:`"
        )
    dialect = (connection.get_bind() if is_a_session else connection).dialect
    if dialect.name != "sqlite":
        raise DefinitionError(f"connection={connection!r} is one to {dialect.name}, and this store is in SQLite")
    return inspect.iscoroutinefunction(connection.connection if is_a_session else connection.exec_driver_sql)


@contextlib.contextmanager
def _writing(connection: _Executes, state: Any) -> Iterator[None]:
    """Do what is inside in a transaction that may write."""
    if state.in_transaction:
        yield
        return
    is_alone = state.isolation_level is None or getattr(state, "autocommit", None) is True
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        if is_alone:
            connection.execute("COMMIT")
    except BaseException:
        # Whatever went wrong, the write lock is not left behind. SQLite may have rolled back by itself.
        if state.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def _reading_texts(connection: sqlite3.Connection) -> Iterator[None]:
    """Read text as `str`, whatever the connection's owner has set."""
    owners = connection.text_factory
    connection.text_factory = str
    try:
        yield
    finally:
        connection.text_factory = owners


class _Plain:
    """A sqlite3.Connection whose rows are tuples, whatever its owner has set."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, text: str, values: Sequence[Any] = (), /) -> sqlite3.Cursor:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        return cursor.execute(text, values)


class _Alchemy:
    """SQLAlchemy's connection with the `execute` of sqlite3."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def execute(self, text: str, values: Sequence[Any] = (), /) -> Any:
        return self._connection.exec_driver_sql(text, tuple(values))
