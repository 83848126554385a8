"""keys: make an API key for the REST API."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from holdfast.errors import DefinitionError
from holdfast.web import new_key

from .options import Json
from .output import print_json, print_line, print_note


class KeyRight(StrEnum):
    """What a key allows; each includes those before it."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"


def keys(
    name: Annotated[str, typer.Argument(help="A name for its holder: letters, digits and dashes.", metavar="NAME")],
    *,
    right: Annotated[
        KeyRight, typer.Option("--right", help="read: look; operate: also start and change; admin: also delete.")
    ] = KeyRight.READ,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Let its holder see inputs, results and messages.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make an API key. Print the key, which is shown only now, and the line with its hash to keep.

    The line goes into the setting `api_keys`, or into HOLDFAST_API_KEYS. This command stores nothing.
    """
    try:
        text, kept = new_key(name, right.value, payloads=payloads)
    except DefinitionError as error:
        raise typer.BadParameter(str(error), param_hint="NAME") from None
    if as_json:
        print_json({"key": text, "kept": str(kept)})
        return
    print_line(f"key   {text}")
    print_line(f"keep  {kept}")
    print_note("give the key to its holder; put the line into api_keys of holdfast.toml, or into HOLDFAST_API_KEYS")
