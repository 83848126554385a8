"""Where runs live. `open_store(url)` is the one place where a concrete store is chosen; all keep one contract."""

from __future__ import annotations

from .callers import Guest
from .contract import Answer, Store
from .sqlite import SqliteStore
from .urls import migration_sql, open_store, parse_url, redact_url

__all__ = ["Answer", "Guest", "SqliteStore", "Store", "migration_sql", "open_store", "parse_url", "redact_url"]
