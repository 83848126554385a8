"""Retention: what a sweep has removed."""

from __future__ import annotations

import msgspec


class Swept(msgspec.Struct, frozen=True):
    """How much one sweep removed, and whether there is more."""

    run_ids: tuple[str, ...]
    events: int
    is_all: bool
