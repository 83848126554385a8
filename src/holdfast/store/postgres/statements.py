"""The SQL blocks of this dialect, by name. They live in .sql files beside this one.

They name the schema `holdfast`, which is replaced for a store in another schema. The schema is written out before every
table, since a pooler that gives each transaction another connection keeps no search path.
"""

from __future__ import annotations

import re
from functools import cache

from holdfast.settings import checked
from holdfast.store.blocks import Blocks, numbered

DEFAULT_SCHEMA = "holdfast"
_QUALIFIED = re.compile(r"\bholdfast(?=\.|;|$)")


class PostgresBlocks(Blocks):
    """The blocks for one schema."""

    def __init__(self, schema: str) -> None:
        super().__init__(__package__, numbered)
        self.schema = schema

    def prepared(self, text: str) -> str:
        return in_schema(text, self.schema)


@cache
def blocks_for(schema: str) -> PostgresBlocks:
    """The blocks of a schema, read once."""
    return PostgresBlocks(checked_schema(schema))


def checked_schema(schema: str) -> str:
    """The name, if it can be one without quotes. It is checked here, too: it need not have come by the settings."""
    return str(checked({"schema": schema}, str)["schema"])


def in_schema(text: str, schema: str) -> str:
    """SQL with this schema's name in place of the default one."""
    return text if schema == DEFAULT_SCHEMA else _QUALIFIED.sub(f'"{schema}"', text)
