"""Options that several commands have, and what they come to. A value that can't be one is wrong usage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from holdfast.client import Client
from holdfast.errors import DefinitionError
from holdfast.settings import Settings, checked, resolve

Url = Annotated[
    str | None, typer.Option("--url", help="The database; by default the one that the settings name.", metavar="URL")
]
Namespace = Annotated[str | None, typer.Option("--namespace", help="Whose runs.", metavar="NAME")]
Schema = Annotated[str | None, typer.Option("--schema", help="The schema of a Postgres database.", metavar="NAME")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RunId = Annotated[str, typer.Argument(help="The run's id.", metavar="RUN_ID")]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="A tag; may be repeated.", metavar="NAME=VALUE")]


def settings_of(**given: Any) -> Settings:
    """The settings that hold, with what was given on the command line first."""
    try:
        checked(given, lambda key: f"--{key.replace('_', '-')}")
    except DefinitionError as error:
        raise typer.BadParameter(str(error)) from None
    return resolve(**given)


def client_of(url: str | None, namespace: str | None, schema: str | None) -> Client:
    """A client for the database that the options and settings name."""
    settings = settings_of(url=url, namespace=namespace, schema=schema)
    return Client(settings.url, namespace=settings.namespace, schema=settings.schema, migrate=settings.migrate)


def tags_of(given: Sequence[str] | None) -> dict[str, str]:
    """`--tag customer=42 --tag kind=gift` as a mapping."""
    found = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{one!r}: expected NAME=VALUE", param_hint="--tag")
        found[name] = value
    return found
