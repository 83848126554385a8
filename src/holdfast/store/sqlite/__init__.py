"""The store in a SQLite file: hand-written SQL by noun, one writer thread, group commit.

`store` hands each call to the `writer` or to the `readers`. They run the functions of the noun files (`starts`,
`turns`, `workers` and so on) on a `Transaction`; the SQL of these functions is in the .sql files.
"""

from .connections import MEMORY
from .migrations import migration_sql
from .store import SqliteStore

__all__ = ["MEMORY", "SqliteStore", "migration_sql"]
