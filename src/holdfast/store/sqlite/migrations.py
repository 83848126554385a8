"""Numbered migrations: applied under the write lock, each once, however many processes start at the same time."""

from __future__ import annotations

import sqlite3
import time

from holdfast.errors import StoreError
from holdfast.store.schemas import NOTHING_LACKING, lacking_of, migrations_of, refuse_newer

from .connections import patiently
from .statements import SQL

# A table that is not ours, or lacks our columns. SQLite has no error code of its own for that.
_IN_THE_WAY = ("already exists", "already another table", "no such column", "has no column")
_NOW = "CAST(strftime('%s', 'now') AS INTEGER) * 1000000"


def migrations() -> list[tuple[int, str]]:
    """Every migration with its number, in order."""
    return migrations_of(__package__)


def migration_sql(*, after: int = 0) -> str:
    """The SQL that migrates a database whose schema has the number `after` (0: it is empty), to run by hand."""
    lacking = lacking_of(migrations(), after)
    if not lacking:
        return NOTHING_LACKING
    parts = [] if after else [SQL["create_migrations"] + ";"]
    for number, text in lacking:
        parts.append(f"-- migration {number}\n{text.strip()}")
        noted = SQL["insert_migration"].replace(":number", str(number)).replace(":now", _NOW)
        parts.append(f"{noted};")
    return "\n\n".join(parts) + "\n"


def split_statements(text: str) -> list[str]:
    """The statements of a script, to execute one by one: executescript would commit the migration's transaction."""
    found, lines = [], []
    for line in text.splitlines():
        lines.append(line)
        if line.rstrip().endswith(";") and sqlite3.complete_statement("\n".join(lines)):
            found.append("\n".join(lines).strip())
            lines = []
    return found


def migrate(connection: sqlite3.Connection, path: str, *, may_change: bool) -> None:
    """Bring the schema up to date, if that is allowed and needed. Raises StoreTooNew for a schema that this version
    can't work with."""
    _migrate_or_refuse(connection, path, may_change, "COMMIT")


def rehearse(connection: sqlite3.Connection, path: str, *, may_change: bool) -> None:
    """Refuse a file that `migrate` would refuse, and leave it as it is. An empty file is never refused."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    if pages or not may_change:
        _migrate_or_refuse(connection, path, may_change, "ROLLBACK")


def _migrate_or_refuse(connection: sqlite3.Connection, path: str, may_change: bool, last: str) -> None:
    try:
        _migrate(connection, path, may_change, last)
    except sqlite3.OperationalError as error:
        if not any(words in str(error) for words in _IN_THE_WAY):
            raise
        raise StoreError(
            f"{path}: {error}. Something of another application has a name that Holdfast needs; name another file"
        ) from error


def _migrate(connection: sqlite3.Connection, path: str, may_change: bool, last: str) -> None:
    known = migrations()
    newest = known[-1][0]
    applied = patiently(lambda: _applied(connection), path)
    refuse_newer(applied, newest, path)
    if applied >= newest:
        return
    if not may_change:
        raise StoreError(
            f"{path}: its schema is number {applied}, and this Holdfast needs {newest}; run `holdfast migrate`"
        )
    patiently(lambda: connection.execute("BEGIN IMMEDIATE"), path)
    try:
        # Another process may have been faster.
        applied = _applied(connection)
        refuse_newer(applied, newest, path)
        connection.execute(SQL["create_migrations"])
        for number, text in known:
            if number > applied:
                for statement in split_statements(text):
                    connection.execute(statement)
                connection.execute(SQL["insert_migration"], {"number": number, "now": time.time_ns() // 1000})
        connection.execute(last)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _applied(connection: sqlite3.Connection) -> int:
    (is_there,) = connection.execute(SQL["has_migrations"]).fetchone()
    if not is_there:
        return 0
    (number,) = connection.execute(SQL["last_migration"]).fetchone()
    return int(number)
