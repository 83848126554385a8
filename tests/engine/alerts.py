"""What bodies say while they are put away: a list that each test finds empty, and the way to put a body away."""

from __future__ import annotations

import gc

from tests.engine.drive import Drive

ALERTS: list[str] = []


def put_away(drive: Drive) -> None:
    """Put the live body away, and see that it left nothing behind."""
    entries = list(drive.entries)
    drive.execution.put_away()
    gc.collect()
    assert drive.entries == entries
    assert drive.execution.fault is None
