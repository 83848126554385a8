"""The store in a Postgres database: hand-written SQL by noun, group commit by one statement over arrays.

`store` hands each call to a link on the store's own loop. The functions of the noun files (`starts`, `turns`, `workers`
and so on) do it on a `Transaction`; the SQL of these functions is in the .sql files.
"""

from .migrations import migration_sql
from .store import PostgresStore

__all__ = ["PostgresStore", "migration_sql"]
