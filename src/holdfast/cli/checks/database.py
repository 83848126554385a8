"""The database: it answers, has this version's schema, grants no more rights than needed, and its clock is right."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from holdfast.cli.options import missing_file
from holdfast.client import Client
from holdfast.errors import HoldfastError, StoreAway, StoreTooNew
from holdfast.extras import find_extra
from holdfast.settings import Settings
from holdfast.store import parse_url

from .checks import Check, fine, mend, note

_SKEW_TOLD = timedelta(seconds=2)
_SKEW_WRONG = timedelta(seconds=60)
_PATIENCE = 10.0


def check_database(settings: Settings) -> tuple[list[Check], bool]:
    """The findings, and whether runs can be read. Nothing is created or migrated."""
    found: list[Check] = []
    if (path := missing_file(settings.url)) is not None:
        parent = Path(path).absolute().parent
        if os.path.isdir(parent):
            return [
                note("database", f"{path} is not there yet", "the first worker or `holdfast migrate` creates it")
            ], False
        return [mend("database", f"there is no folder {parent}", "create it, or name another file")], False
    is_readable = _is_readable(settings, found)
    if parse_url(settings.url).scheme == "postgresql":
        found += _server(settings)
    else:
        found.append(fine("clock", "SQLite's clock is this machine's"))
    return found, is_readable


def _is_readable(settings: Settings, found: list[Check]) -> bool:
    client = Client(settings.url, namespace=settings.namespace, schema=settings.schema, migrate=False)
    try:
        with client:
            client.workers()
    except StoreAway as error:
        found.append(mend("database", str(error), "start it, or correct the setting url"))
        return False
    except StoreTooNew as error:
        found.append(mend("schema", str(error), "pip install --upgrade holdfast"))
        return False
    except HoldfastError as error:
        # A file that is no database, or a missing driver, has its own advice, for migrating would not help.
        is_old = "`holdfast migrate`" in str(error)
        found.append(mend("schema", str(error), "holdfast migrate") if is_old else mend("database", str(error)))
        return False
    found += [fine("database", f"{client.url} answers"), fine("schema", "is this version's")]
    return True


def _server(settings: Settings) -> Iterator[Check]:
    """What only a Postgres server can tell about itself."""
    asyncpg = find_extra("asyncpg")
    if asyncpg is None:
        return
    try:
        facts = asyncio.run(_facts(asyncpg, settings.url))
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        # Reported above already.
        return
    yield fine("server", f"Postgres {facts['version']}, role {facts['role']}")
    if facts["is_super"]:
        yield note(
            "rights",
            f"{facts['role']} is a superuser, which Holdfast never needs",
            "give it a role of its own: docs/postgres.md lists the grants",
        )
    elif facts["is_strong"]:
        yield note("rights", f"{facts['role']} may create databases or roles", "take those rights away from it")
    else:
        yield fine("rights", "no more than an ordinary role's")
    skew = abs(facts["skew"])
    told = f"the database's and this machine's differ by {skew.total_seconds():.3f} s"
    advice = "let both follow a time server (NTP); leases go by the database's clock, your datetimes by this one"
    if skew > _SKEW_WRONG:
        yield mend("clock", told, advice)
    elif skew > _SKEW_TOLD:
        yield note("clock", told, advice)
    else:
        yield fine("clock", told)


async def _facts(asyncpg: Any, url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    # `pooler` is Holdfast's own option, the others are the driver's.
    options = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name != "pooler"]
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(options), ""))
    connection = await asyncpg.connect(dsn, timeout=_PATIENCE, statement_cache_size=0)
    try:
        statement = resources.files(__package__).joinpath("server.sql").read_text("utf-8")
        asked = datetime.now(UTC)
        row = await connection.fetchrow(statement)
        answered = datetime.now(UTC)
    finally:
        await connection.close()
    # The server read its clock between these two moments.
    return {**row, "skew": row["now"] - (asked + (answered - asked) / 2)}
