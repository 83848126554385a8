"""Numbered migrations: applied under a lock, in one transaction, each once, however many processes start at once."""

from __future__ import annotations

from holdfast.errors import StoreError
from holdfast.store.schemas import NOTHING_LACKING, lacking_of, migrations_of, refuse_newer

from .connections import sqlstate
from .statements import DEFAULT_SCHEMA, blocks_for, in_schema
from .transactions import Transaction

# A table, a function or a type that is not ours, or a table that lacks our columns.
_IN_THE_WAY = ("42P07", "42723", "42710", "42703")


def migrations() -> list[tuple[int, str]]:
    """Every migration with its number, in order."""
    return migrations_of(__package__)


def migration_sql(schema: str = DEFAULT_SCHEMA, *, after: int = 0) -> str:
    """The SQL that migrates a database whose schema has the number `after` (0: it is empty), to run by hand."""
    lacking = lacking_of(migrations(), after)
    if not lacking:
        return NOTHING_LACKING
    blocks = blocks_for(schema)
    parts = ["BEGIN;"]
    if not after:
        parts += [blocks["create_schema"] + ";", blocks["create_migrations"] + ";"]
    for number, text in lacking:
        parts.append(f"-- migration {number}\n{in_schema(text, schema).strip()}")
        parts.append(blocks["insert_migration"].replace(":number", str(number)) + ";")
    return "\n\n".join([*parts, "COMMIT;"]) + "\n"


async def applied(tx: Transaction) -> int:
    """The number of the newest migration that the database has; 0: it has none."""
    row = await tx.one("has_migrations", {"schema": tx.blocks.schema})
    if row is None or not row[0]:
        return 0
    last = await tx.one("last_migration", {})
    return int(last[0]) if last else 0


async def migrate(tx: Transaction, shown: str, *, may_change: bool) -> None:
    """Bring the schema up to date, if that is allowed and needed. Raises StoreTooNew for a schema that this version
    can't work with."""
    try:
        await _migrate(tx, shown, may_change)
    except Exception as error:
        if sqlstate(error) not in _IN_THE_WAY:
            raise
        raise StoreError(
            f"{shown}: {str(error).partition(chr(10))[0]}. Something of another application in the schema"
            f" {tx.blocks.schema!r} has a name that Holdfast needs; choose another schema, or none to get"
            f" {DEFAULT_SCHEMA!r}"
        ) from error


async def _migrate(tx: Transaction, shown: str, may_change: bool) -> None:
    known = migrations()
    newest = known[-1][0]
    found = await applied(tx)
    refuse_newer(found, newest, shown)
    if found >= newest:
        return
    if not may_change:
        raise StoreError(
            f"{shown}: its schema is number {found}, and this Holdfast needs {newest}; run `holdfast migrate`"
        )
    await tx.one("lock_migrations", {"name": f"holdfast.{tx.blocks.schema}"})
    # Another process may have been faster.
    found = await applied(tx)
    refuse_newer(found, newest, shown)
    if found == 0:
        await tx.all("create_schema", {})
        await tx.all("create_migrations", {})
    for number, text in known:
        if number > found:
            for statement in split_statements(in_schema(text, tx.blocks.schema)):
                await tx.execute(statement, ())
            await tx.all("insert_migration", {"number": number})


def split_statements(text: str) -> list[str]:
    """The statements of a migration, one by one. A statement ends with a semicolon at the end of a line."""
    found: list[str] = []
    lines: list[str] = []
    for line in text.splitlines():
        lines.append(line)
        if line.rstrip().endswith(";") and not line.lstrip().startswith("--"):
            found.append("\n".join(lines).strip())
            lines = []
    return found
