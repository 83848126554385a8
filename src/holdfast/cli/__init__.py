"""The command `holdfast`. It parses, calls one front door and prints; what things mean is decided elsewhere.

Exit codes: 0 done, 1 Holdfast refused (its error is on stderr), 2 wrong usage.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import sys
from collections.abc import Sequence

from holdfast.errors import HoldfastError
from holdfast.settings import resolve
from holdfast.store import migration_sql, open_store

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = _parser().parse_args(arguments)
    try:
        if given.command == "version":
            print(importlib.metadata.version("holdfast"))
        elif given.sql:
            print(migration_sql(resolve(url=given.url).url))
        else:
            print(asyncio.run(_migrate(resolve(url=given.url).url)))
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="holdfast", description="Durable execution for Python.")
    parser.add_argument("--version", action="version", version=importlib.metadata.version("holdfast"))
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("version", help="print the version")
    migrate = commands.add_parser("migrate", help="bring a database to this version's schema")
    migrate.add_argument("--url", help="the database; by default the one that the settings name")
    migrate.add_argument("--sql", action="store_true", help="print the statements and touch no database")
    return parser


async def _migrate(url: str) -> str:
    store = open_store(url)
    await store.open()
    await store.close()
    return f"{store.url} has this version's schema"
