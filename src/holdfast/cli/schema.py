"""migrate: bring a database to this version's schema, or print the statements for it."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from holdfast.errors import StoreAway, StoreError
from holdfast.settings import Settings
from holdfast.store import migration_sql, open_store, redact_url

from .options import Json, Schema, Url, missing_file, settings_of
from .output import print_answer


def migrate(
    *,
    url: Url = None,
    schema: Schema = None,
    sql: Annotated[
        bool, typer.Option("--sql", help="Only print the statements, for an empty database; see --from.")
    ] = False,
    after: Annotated[
        int | None,
        typer.Option(
            "--from",
            metavar="N",
            min=0,
            help="With --sql: print the statements after migration N, the max(number) in its table `migrations`.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Bring a database to this version's schema. Repeats change nothing.

    The statements of --sql are for an empty database, and can't be executed twice; with --from N they are the rest.
    """
    if after is not None and not sql:
        raise typer.BadParameter("it goes with --sql; without that the database itself says", param_hint="--from")
    settings = settings_of(url=url, schema=schema)
    if sql:
        text = migration_sql(settings.url, schema=settings.schema, after=after or 0)
        print_answer(text, {"sql": text}, as_json=as_json)
        return
    shown = redact_url(settings.url)
    migrated = asyncio.run(_migrate(settings))
    print_answer(f"{shown} has this version's schema", {"url": shown, "migrated": migrated}, as_json=as_json)


async def _migrate(settings: Settings) -> bool:
    """Migrate. Returns whether there was anything to do: if not, the store opens with migrate=False."""
    if missing_file(settings.url) is None:
        try:
            await _open(settings, migrate=False)
            return False
        except StoreAway:
            raise
        except StoreError:
            pass
    await _open(settings, migrate=True)
    return True


async def _open(settings: Settings, *, migrate: bool) -> None:
    store = open_store(settings.url, namespace=settings.namespace, schema=settings.schema, migrate=migrate)
    await store.open()
    await store.close()
