"""Where runs live. `open_store(url)` is the one place where a concrete store is chosen; all keep one contract."""

from __future__ import annotations

from .callers import Guest
from .chains import family_of, kept_of_chain, last_of, next_of
from .contract import Answer, Store
from .loans import IDLE, LOST, Lender, Loan, Undone
from .sqlite import SqliteStore
from .subscribers import News
from .urls import check_address, migration_sql, open_store, parse_url, redact_url, store_for

__all__ = [
    "IDLE",
    "LOST",
    "Answer",
    "Guest",
    "Lender",
    "Loan",
    "News",
    "SqliteStore",
    "Store",
    "Undone",
    "check_address",
    "family_of",
    "kept_of_chain",
    "last_of",
    "migration_sql",
    "next_of",
    "open_store",
    "parse_url",
    "redact_url",
    "store_for",
]
