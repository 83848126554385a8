"""migrate: bring a database to this version's schema, or print what that would execute."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from holdfast.settings import Settings
from holdfast.store import migration_sql, open_store

from .options import Json, Schema, Url, settings_of
from .output import print_answer


def migrate(
    *,
    url: Url = None,
    schema: Schema = None,
    sql: Annotated[bool, typer.Option("--sql", help="Print the statements and touch no database.")] = False,
    as_json: Json = False,
) -> None:
    """Bring a database to this version's schema. Repeating it changes nothing."""
    settings = settings_of(url=url, schema=schema)
    if sql:
        text = migration_sql(settings.url, schema=settings.schema)
        print_answer(text, {"sql": text}, as_json=as_json)
        return
    migrated = asyncio.run(_migrate(settings))
    print_answer(f"{migrated} has this version's schema", {"url": migrated, "migrated": True}, as_json=as_json)


async def _migrate(settings: Settings) -> str:
    store = open_store(settings.url, namespace=settings.namespace, schema=settings.schema)
    await store.open()
    await store.close()
    return store.url
