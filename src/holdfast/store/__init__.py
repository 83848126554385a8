"""Where runs live. `open_store(url)` is the one place where a concrete store is chosen; all keep one contract."""

from __future__ import annotations

from .contract import Store
from .urls import open_store, parse_url, redact_url

__all__ = ["Store", "open_store", "parse_url", "redact_url"]
